"""Reviews: a strict file with places, of which a session takes what is about its cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_evarness.errors import InputError
from pytest_evarness.scenario.reviews import MAX_NOTE, reviews_of

CASE = "scenarios/s.yaml::default"
PLAN: list[dict[str, Any]] = [
    {
        "nodeid": CASE,
        "file": "scenarios/s.yaml",
        "items": [{"id": "expect"}, {"id": "tone"}, {"id": "length"}],
    }
]
ENTRY = f'{{case: "{CASE}", invariant: tone, reviewer: dana, note: fine}}'


def written(root: Path, text: str) -> list[dict[str, str]]:
    folder = root / "evarness"
    folder.mkdir(exist_ok=True)
    (folder / "reviews.yaml").write_text(text, encoding="utf-8")
    return reviews_of(root, PLAN)


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    assert reviews_of(tmp_path, PLAN) == []
    assert written(tmp_path, "[]\n") == []


def test_entries_are_sorted_and_several_persons_may_speak(tmp_path: Path) -> None:
    text = "\n".join(
        [
            f'- {{case: "{CASE}", invariant: tone, reviewer: zoe, note: no}}',
            f"- {ENTRY}",
            f'- {{case: "{CASE}", invariant: length, reviewer: zoe, note: short}}',
        ]
    )
    assert [(row["invariant"], row["reviewer"]) for row in written(tmp_path, text)] == [
        ("length", "zoe"),
        ("tone", "dana"),
        ("tone", "zoe"),
    ]


def test_what_is_about_other_files_waits_for_its_session(tmp_path: Path) -> None:
    other = ENTRY.replace("scenarios/s.yaml", "scenarios/other.yaml")
    assert len(written(tmp_path, f"- {other}\n- {ENTRY}\n")) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}\n", "evarness/reviews.yaml:1:1: must be a list"),
        ("- x\n", "evarness/reviews.yaml:1:3: [0]: must be a mapping"),
        (f"- {ENTRY}\n- {{case: x}}\n", "evarness/reviews.yaml:2:3: [1]: "),
        (f"- {ENTRY.replace('note:', 'notes:')}\n", "try: write 'note'"),
        (f"- {ENTRY.replace('fine', '7')}\n", "[0].note: must be text"),
        (f"- {ENTRY.replace('dana', chr(34) * 2)}\n", "[0].reviewer: "),
        (f"- {ENTRY.replace('fine', 'x' * (MAX_NOTE + 1))}\n", "[0].note: "),
        (f"- {ENTRY.replace('fine', 'fine, note: twice')}\n", "note"),
        (f"- {ENTRY.replace(CASE, 'default')}\n", "must be the node id of a case (got 'default'"),
        (f"- {ENTRY.replace('::default', '::defualt')}\n", f"try: write '{CASE}'"),
        (f"- {ENTRY.replace('tone', 'tonne')}\n", "names no finding of that case (got 'tonne')"),
        (f"- {ENTRY.replace('tone', 'tonne')}\n", "try: write 'tone'"),
        (f"- {ENTRY}\n- {ENTRY}\n", "2:3: [1]: stands there twice (entry 1 is it)"),
        ("[\n", "evarness/reviews.yaml:"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        written(tmp_path, text)
    assert str(caught.value).startswith("evarness/reviews.yaml:")
    assert told in str(caught.value)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        written(tmp_path, f"- {ENTRY.replace('tone', 'x')}\n- {ENTRY.replace(CASE, 'y')}\n")
    assert "[0].invariant" in str(caught.value)
    assert "[1].case" in str(caught.value)


def test_a_file_outside_of_the_root_is_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text(f"- {ENTRY}\n", encoding="utf-8")
    root = tmp_path / "root"
    (root / "evarness").mkdir(parents=True)
    (root / "evarness" / "reviews.yaml").symlink_to(outside)
    with pytest.raises(InputError, match=r"^evarness/reviews.yaml: leads out of the root"):
        reviews_of(root, PLAN)
