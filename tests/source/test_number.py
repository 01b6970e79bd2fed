"""A written number is compared by its digits, never by its binary rounding."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evarness.source.number import WrittenFloat, exact


def test_tenths_add_up() -> None:
    assert exact(WrittenFloat("0.1")) + exact(WrittenFloat("0.2")) == exact(WrittenFloat("0.3"))
    assert WrittenFloat("0.1") + WrittenFloat("0.2") != 0.3  # the twin: floats do not


@pytest.mark.parametrize("written", ["0.85", "1e3", ".5", "5.", "-2.50", "+1.5e-2"])
def test_the_written_digits_count(written: str) -> None:
    number = written.lstrip("+")
    assert exact(WrittenFloat(written)) == Fraction(number if number[0] != "." else f"0{number}")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_that_nobody_wrote_counts_as_its_shortest_form(value: float) -> None:
    assert exact(value) == Fraction(repr(value))


@pytest.mark.parametrize("written", ["0e999999999", "0.000e-999999999", "-0E+999999999", ".0e2001"])
def test_zero_is_zero_whatever_its_exponent(written: str) -> None:
    # Whoever works the exponent out needs minutes and gigabytes.
    assert exact(WrittenFloat(written)) == 0


@pytest.mark.parametrize("written", ["1e-999999999", "0.1e-2001", "10E-999999999"])
def test_an_exponent_beyond_every_float_is_refused(written: str) -> None:
    assert not WrittenFloat(written)  # the twin: to everybody else it is 0, which it is not
    with pytest.raises(ValueError, match=r"^the exponent is too large"):
        exact(WrittenFloat(written))


@pytest.mark.parametrize("written", ["5e-324", "1.7976931348623157e308", f"0.{'0' * 390}1e390"])
def test_what_a_document_may_write_is_exact(written: str) -> None:
    assert exact(WrittenFloat(written)) == Fraction(written)


def test_what_is_no_number_is_refused() -> None:
    for value in (True, "1", None):
        with pytest.raises(TypeError, match=r"^not a number"):
            exact(value)  # type: ignore[arg-type]
    for number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"^not a finite number"):
            exact(number)


def test_a_written_number_survives_copies_and_processes() -> None:
    number = WrittenFloat("0.10")
    for made in (copy.deepcopy(number), pickle.loads(pickle.dumps(number))):
        assert made == 0.1
        assert made.written == "0.10"
