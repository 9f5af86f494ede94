from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tenure_records.computed import CODES, Evaluator
from tests.support.computed_fields import field, outcome

PRESENT_FALSY = ["false", "0", '""', "[]", "{}", "-0.0"]
MIXED = '{"a": null, "s": "x", "n": 2.50, "i": 7, "b": true, "o": {"k": 1}, "l": [1]}'
NOT_NUMBERS = ['"7"', "true", "false", "{}", "[]", "[1]"]


@pytest.mark.parametrize(
    ("path", "result_type", "value"),
    [
        ("/s", "string", "x"),
        ("/n", "number", Decimal("2.5")),
        ("/i", "number", 7),
        ("/i", "integer", 7),
        ("/b", "boolean", True),
        ("/o", "object", {"k": 1}),
        ("/l", "array", [1]),
    ],
)
def test_first_non_null_takes_the_first_value_that_is_there(path: str, result_type: str, value: Any) -> None:
    found = outcome(MIXED, field("first_non_null", "/missing", "/a", path, "/t", result_type=result_type))
    assert found == (value, None)
    assert type(found[0]) is type(value)


@pytest.mark.parametrize("result_type", ["string", "number", "integer", "boolean", "object", "array"])
def test_first_non_null_of_another_type_is_a_mismatch(result_type: str) -> None:
    fits = {"s": ["string"], "n": ["number"], "i": ["number", "integer"], "b": ["boolean"]}
    fits |= {"o": ["object"], "l": ["array"]}
    for name, types in fits.items():
        code = outcome(MIXED, field("first_non_null", f"/{name}", result_type=result_type))[1]
        if result_type in types:
            assert code is None
        elif name == "n" and result_type == "integer":
            assert code == "non_integer_result"
        else:
            assert code == "result_type_mismatch"


@pytest.mark.parametrize("op", ["first_non_null", "sum", "average", "min", "max"])
def test_nothing_present_gives_null_without_a_code(op: str) -> None:
    for result_type in ("number", "integer"):
        assert outcome('{"a": null}', field(op, "/a", "/b/c", result_type=result_type)) == (None, None)


@pytest.mark.parametrize(("op", "value"), [("sum", 12), ("average", 4), ("min", 1), ("max", 9)])
def test_aggregates_ignore_missing_and_null(op: str, value: int) -> None:
    for result_type in ("number", "integer"):
        definition = field(op, "/a", "/none", "/b/1", "/null", "/c", result_type=result_type)
        assert outcome('{"a": 9, "b": [0, 2.0], "null": null, "c": 1e0}', definition) == (value, None)


@pytest.mark.parametrize("op", ["sum", "average", "min", "max"])
@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_a_present_value_that_is_no_number_is_an_error(op: str, value: str) -> None:
    assert outcome(f'{{"a": 1, "b": {value}}}', field(op, "/a", "/b")) == (None, "non_numeric_operand")


@pytest.mark.parametrize("op", ["sum", "average", "min", "max"])
def test_an_integer_result_refuses_a_fraction_and_takes_a_whole_decimal(op: str) -> None:
    assert outcome('{"a": 0.5}', field(op, "/a", result_type="integer")) == (None, "non_integer_result")
    value, code = outcome('{"a": 5.00}', field(op, "/a", result_type="integer"))
    assert (value, type(value), code) == (5, int, None)


@pytest.mark.parametrize("value", [*PRESENT_FALSY, "1"])
def test_presence_is_not_truthiness(value: str) -> None:
    text = f'{{"a": {value}, "b": null}}'
    assert outcome(text, field("all_present", "/a", result_type="boolean")) == (True, None)
    assert outcome(text, field("all_present", "/a", "/b", result_type="boolean")) == (False, None)
    assert outcome(text, field("all_present", "/a", "/c", result_type="boolean")) == (False, None)
    assert outcome(text, field("any_present", "/c", "/b", "/a", result_type="boolean")) == (True, None)
    assert outcome(text, field("any_present", "/c", "/b", result_type="boolean")) == (False, None)
    assert outcome(text, field("count_present", "/c", "/a", "/b", "", result_type="integer")) == (2, None)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ("1", "1.0", True),
        ("100", "1e2", True),
        ("0", "-0.0", True),
        ("1", "true", False),
        ("0", "false", False),
        ("true", "true", True),
        ("true", "false", False),
        ("1", '"1"', False),
        ('"a"', '"A"', False),
        ('"é"', '"e\\u0301"', False),
        ('"é"', '"\\u00e9"', True),
        ("[]", "{}", False),
        ("[1, 2]", "[1.0, 2e0]", True),
        ("[1, 2]", "[2, 1]", False),
        ("[1]", "[1, 1]", False),
        ("[true]", "[1]", False),
        ('{"x": 1, "y": [null]}', '{"y": [null], "x": 1.0}', True),
        ('{"x": null}', "{}", False),
        ('{"x": null}', '{"y": null}', False),
        ('{"x": [{"y": 1}]}', '{"x": [{"y": true}]}', False),
        ("null", "null", False),
    ],
)
def test_equality_is_recursive_and_strict(left: str, right: str, equal: bool) -> None:
    definition = field("all_present_and_equal", "/l", "/r", result_type="boolean")
    assert outcome(f'{{"l": {left}, "r": {right}}}', definition) == (equal, None)
    assert outcome(f'{{"l": {right}, "r": {left}}}', definition) == (equal, None)


def test_equality_needs_every_path_present() -> None:
    definition = field("all_present_and_equal", "/a", "/b", "/c", result_type="boolean")
    assert outcome('{"a": 1, "b": 1, "c": 1}', definition) == (True, None)
    assert outcome('{"a": 1, "b": 1, "c": 2}', definition) == (False, None)
    assert outcome('{"a": 1, "b": 1}', definition) == (False, None)
    assert outcome('{"a": 1, "b": 1, "c": null}', definition) == (False, None)


def test_there_are_seven_codes_each_explained() -> None:
    assert len(CODES) == 7
    assert all(text for text in CODES.values())


def test_an_error_stays_with_its_field() -> None:
    evaluator = Evaluator([field("sum", "/s", key="bad"), field("sum", "/i", "/n", key="good")])
    evaluation = evaluator.evaluate(MIXED)
    assert evaluation.values == {"bad": None, "good": Decimal("9.5")}
    assert evaluation.errors == {"bad": "non_numeric_operand"}


def test_a_disabled_field_has_no_value() -> None:
    evaluation = Evaluator([field("sum", "/s", enabled=False)]).evaluate(MIXED)
    assert (evaluation.values, evaluation.errors) == ({}, {})
