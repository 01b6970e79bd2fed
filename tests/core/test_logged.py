"""What a node logs is shown without secrets by every handler, and records stay what they are."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from pytest_evarness.core.logged import logged_without_secrets
from pytest_evarness.core.secret import Masker

VALUE = "s3cr3t-9f2"
MASKER = Masker({"TOKEN": VALUE})
SHOWN = "«secret:TOKEN»"


class Kept(logging.StreamHandler[io.StringIO]):
    """A handler that keeps its records, as a log-capturing plug-in does."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        super().emit(record)


@pytest.fixture(params=["", "evarness_logged.deep"])
def handler(request: pytest.FixtureRequest) -> Iterator[Kept]:
    logger = logging.getLogger(request.param)
    kept = Kept()
    logger.addHandler(kept)
    yield kept
    logger.removeHandler(kept)


LOGGER = logging.getLogger("evarness_logged.deep")


@pytest.mark.parametrize("formatter", [None, logging.Formatter("%(levelname)s %(message)s")])
def test_the_text_is_masked_and_the_record_is_not(
    handler: Kept, formatter: logging.Formatter | None
) -> None:
    handler.setFormatter(formatter)
    with logged_without_secrets(MASKER):
        LOGGER.warning("token %s, escaped %r", VALUE, f"\n{VALUE}")
        try:
            raise ValueError(VALUE)
        except ValueError:
            LOGGER.exception("it fell")
    text = handler.stream.getvalue()
    assert VALUE not in text
    assert text.count(SHOWN) == 3
    assert ("WARNING token" in text) is (formatter is not None)
    assert VALUE in handler.records[0].getMessage()
    assert handler.formatter is formatter
    # The twin: outside of a run, and without secrets, nothing is touched.
    LOGGER.warning("token %s", VALUE)
    assert handler.stream.getvalue().endswith(f"token {VALUE}\n")


def test_without_secrets_handlers_are_left_alone(handler: Kept) -> None:
    with logged_without_secrets(Masker({})):
        assert handler.formatter is None


def test_a_formatter_that_a_node_sets_stays(handler: Kept) -> None:
    own = logging.Formatter("own %(message)s")
    with logged_without_secrets(MASKER):
        handler.setFormatter(own)
    assert handler.formatter is own


def test_a_run_within_a_run_masks_for_both(handler: Kept) -> None:
    with logged_without_secrets(MASKER):
        outer = handler.formatter
        with logged_without_secrets(Masker({"OTHER": "other-value"})):
            LOGGER.warning("%s and other-value", VALUE)
        assert handler.formatter is outer
    assert handler.stream.getvalue() == f"{SHOWN} and «secret:OTHER»\n"
    assert handler.formatter is None
