from __future__ import annotations

import decimal
import threading
from decimal import Decimal

import pytest

from tenure_records.computed import encode
from tests.support.computed_fields import field, outcome

NINES = "9" * 34
AGGREGATES = ["sum", "average", "min", "max"]


def total(*numbers: str) -> tuple[object, str | None]:
    paths = [f"/{index}" for index in range(len(numbers))]
    return outcome(f"[{', '.join(numbers)}]", field("sum", *paths))


def average(*numbers: str) -> tuple[object, str | None]:
    paths = [f"/{index}" for index in range(len(numbers))]
    return outcome(f"[{', '.join(numbers)}]", field("average", *paths))


@pytest.mark.parametrize(
    ("numbers", "result"),
    [
        (["0.1", "0.2"], "0.3"),
        ([f"1{'0' * 33}", "0.5"], f"1{'0' * 33}"),  # a tie: down to the even digit
        ([f"1{'0' * 32}1", "0.5"], f"1{'0' * 32}2"),  # a tie: up to the even digit
        ([f"1{'0' * 33}", "0.5", "1e-300"], f"1{'0' * 32}1"),  # the smallest excess breaks the tie
        ([f"1{'0' * 32}1", "0.5", "-1e-300"], f"1{'0' * 32}1"),
        ([f"-1{'0' * 32}1", "-0.5"], f"-1{'0' * 32}2"),
        ([NINES, "0.4"], NINES),
        ([NINES, "0.5"], "1e34"),
        ([NINES, "1"], "1e34"),
        (["1e308", "1e-308", "-1e308"], "1e-308"),  # exact until the one rounding
        (["9e308", "9e308", "-9e308"], "9e308"),
        (["1e-308", "-1e-308"], "0"),
    ],
)
def test_a_sum_is_exact_and_rounded_once_to_34_digits_half_even(numbers: list[str], result: str) -> None:
    assert total(*numbers) == (Decimal(result), None)


def test_an_average_is_rounded_once_to_34_digits_half_even() -> None:
    assert average("1", "0", "0") == (Decimal("0." + "3" * 34), None)
    assert average("2", "0", "0") == (Decimal("0." + "6" * 33 + "7"), None)
    assert average(f"2{'0' * 32}2", "1", "0", "0") == (Decimal(f"5{'0' * 32}.8"), None)
    # The mean of the exact sum: a sum rounded first would be a tie and end in 8.
    assert average(f"2{'0' * 33}", "3", "-1e-300", "0") == (Decimal(f"5{'0' * 32}.7"), None)
    assert average("1", "2") == (Decimal("1.5"), None)
    assert average("9e308", "9e308") == (9 * 10**308, None)


@pytest.mark.parametrize("number", [NINES, f"{NINES}000", "1e308", f"9.{'9' * 33}e308", "1e-308", "-1e-308"])
@pytest.mark.parametrize("op", AGGREGATES)
def test_34_digits_and_an_exponent_of_308_are_in_range(op: str, number: str) -> None:
    assert outcome(f'{{"a": {number}}}', field(op, "/a")) == (Decimal(number), None)
    assert outcome(f'{{"a": {number}}}', field("first_non_null", "/a")) == (Decimal(number), None)


@pytest.mark.parametrize("number", ["1" * 35, f"1.{'0' * 33}1", "1e309", "-1e309", "9.9e-309", "1" + "0" * 309])
@pytest.mark.parametrize("op", [*AGGREGATES, "first_non_null"])
def test_35_digits_or_an_exponent_of_309_are_not(op: str, number: str) -> None:
    for result_type in ("number", "integer"):
        found = outcome(f'{{"a": {number}}}', field(op, "/a", result_type=result_type))
        assert found == (None, "numeric_out_of_range")


def test_zero_is_in_range_whatever_its_exponent() -> None:
    for zero in ("0e-5000", "-0.0", "0e5000"):
        found = outcome(f'{{"a": {zero}}}', field("first_non_null", "/a", result_type="integer"))
        assert found == (0, None)
        assert encode(found[0]) == "0"


def test_a_result_may_leave_the_range_of_its_operands() -> None:
    assert total("9e308", "1e308") == (None, "numeric_out_of_range")
    assert average("1e-308", "0") == (None, "numeric_out_of_range")


def test_a_compared_number_must_be_in_range() -> None:
    definition = field("all_present_and_equal", "/a", "/b", result_type="boolean")
    assert outcome('{"a": 1e400, "b": 1e400}', definition) == (None, "numeric_out_of_range")
    assert outcome('{"a": [1e400], "b": [true]}', definition) == (False, None)


def test_the_wrong_type_is_named_before_the_range() -> None:
    found = outcome('{"a": 1e400}', field("first_non_null", "/a", result_type="string"))
    assert found == (None, "result_type_mismatch")


@pytest.mark.parametrize("op", ["min", "max", "sum", "average", "first_non_null"])
@pytest.mark.parametrize("spelling", ["1500", "1500.000", "1.5e3", "15E2"])
def test_a_result_has_one_spelling(op: str, spelling: str) -> None:
    assert encode(outcome(f'{{"a": {spelling}}}', field(op, "/a"))[0]) == "1500"


def test_the_threads_decimal_context_changes_nothing() -> None:
    found: list[object] = []

    def evaluate_under_a_coarse_context() -> None:
        decimal.setcontext(decimal.Context(prec=2, rounding=decimal.ROUND_UP, Emax=5, Emin=-5, traps=[decimal.Inexact]))
        found.extend([total("1.23456", "1e-20"), average("1", "0", "0"), outcome("[12345.678]", field("max", "/0"))])

    thread = threading.Thread(target=evaluate_under_a_coarse_context)
    thread.start()
    thread.join()
    assert found == [
        (Decimal("1.23456000000000000001"), None),
        (Decimal("0." + "3" * 34), None),
        (Decimal("12345.678"), None),
    ]
