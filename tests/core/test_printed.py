"""What a node prints is shown without secrets, in whatever pieces it comes."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import pytest

from pytest_evarness.core.printed import printed_without_secrets
from pytest_evarness.core.secret import Masker

VALUE = "s3cr3t-9f2"
MASKER = Masker({"TOKEN": VALUE})
SHOWN = "«secret:TOKEN»"


@contextmanager
def lent() -> Iterator[io.StringIO]:
    """Standard output for a while; a fixture's would be taken back by pytest's own capture."""
    with redirect_stdout(io.StringIO()) as stream:
        yield stream


def test_a_whole_value_is_replaced_and_the_rest_is_as_it_was() -> None:
    with lent() as out:
        with printed_without_secrets(MASKER):
            print("before", VALUE, "after")
            assert VALUE not in out.getvalue()
        assert out.getvalue() == f"before {SHOWN} after\n"
        assert sys.stdout is out


@pytest.mark.parametrize("size", range(1, len(VALUE) + 1))
def test_a_value_in_pieces_is_replaced(size: int) -> None:
    with lent() as out:
        text = f"a {VALUE} b {base64.b64encode(b'user:' + VALUE.encode()).decode()} c"
        with printed_without_secrets(MASKER):
            for start in range(0, len(text), size):
                sys.stdout.write(text[start : start + size])
                sys.stdout.flush()
        assert VALUE not in out.getvalue()
        assert out.getvalue() == MASKER.text(text)


def test_what_is_settled_is_shown_before_the_end() -> None:
    with lent() as out:
        with printed_without_secrets(MASKER):
            print(f"{VALUE} " + "x" * 5000)
            assert out.getvalue().startswith(f"{SHOWN} xxx")
            assert len(out.getvalue()) > 4000
        assert out.getvalue() == f"{SHOWN} " + "x" * 5000 + "\n"


def test_a_value_across_the_place_where_it_is_cut_is_held_back_whole() -> None:
    with lent() as out:
        for before in range(MASKER.longest + 20):
            out.truncate(0)
            out.seek(0)
            with printed_without_secrets(MASKER):
                sys.stdout.write("x" * 50 + VALUE + "y" * before)
                assert "s3cr" not in out.getvalue()
            assert out.getvalue() == "x" * 50 + SHOWN + "y" * before


def test_bytes_are_masked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    beneath = io.BytesIO()
    stream = io.TextIOWrapper(beneath, encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stderr", stream)
    with printed_without_secrets(MASKER):
        assert sys.stderr.buffer.write(f"{VALUE} ü\n".encode() + b"\xff\n") == len(VALUE) + 6
        sys.stderr.writelines([f"{VALUE}\n", "end\n"])
    assert beneath.getvalue().decode() == f"{SHOWN} ü\n\\xff\n{SHOWN}\nend\n"


def test_it_is_over_after_an_exception_too() -> None:
    def leave() -> None:
        print(VALUE)
        raise ZeroDivisionError

    with lent() as out:
        with pytest.raises(ZeroDivisionError), printed_without_secrets(MASKER):
            leave()
        assert (out.getvalue(), sys.stdout) == (f"{SHOWN}\n", out)


def test_who_keeps_the_stream_writes_masked_for_ever() -> None:
    with lent() as out:
        with printed_without_secrets(MASKER):
            kept = sys.stdout
        kept.write(f"late {VALUE}")
        kept.close()
        assert out.getvalue() == f"late {SHOWN}"
        assert not out.closed


def test_a_stream_of_the_node_s_own_stays_its_own() -> None:
    with lent() as out:
        own = io.StringIO()
        with printed_without_secrets(MASKER):
            sys.stdout = own
        assert sys.stdout is own
        sys.stdout = out


def test_without_secrets_all_is_shown_as_it_was() -> None:
    with lent() as out:
        with printed_without_secrets(Masker({})):
            print(VALUE)
        # The twin: nobody said that it was one.
        assert out.getvalue() == f"{VALUE}\n"


@pytest.mark.parametrize("masker", [MASKER, Masker({})], ids=["secret", "none"])
@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", b"a\\ud800\xc3\xa9 b\n"), ("ascii", b"a\\ud800\\xe9 b\n")],
)
def test_printing_never_fails(
    masker: Masker, encoding: str, shown: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    beneath = io.BytesIO()
    stream = io.TextIOWrapper(beneath, encoding=encoding, write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    # The twin: the stream itself refuses.
    with pytest.raises(UnicodeEncodeError):
        stream.write("\ud800")
    with printed_without_secrets(masker):
        print("a\ud800é", "b")
    assert beneath.getvalue() == shown


def test_a_text_is_wanted() -> None:
    with lent() as out:
        with (
            printed_without_secrets(MASKER),
            pytest.raises(TypeError, match=r"^write\(\) argument"),
        ):
            sys.stdout.write(b"x")  # type: ignore[arg-type]
        assert out.getvalue() == ""
