from __future__ import annotations

from typing import Any

import pytest

from tenure.model.errors import TenureError
from tenure_records.computed import Definition, Evaluator, InvalidDefinition, Operation, define
from tests.support.computed_fields import field

GOOD: dict[str, Any] = {
    "key": "total",
    "label": "Total",
    "operation": {"op": "sum", "paths": ["/a", "/b"]},
    "result_type": "number",
}
NUMERIC = {"number", "integer"}
EVERY = {"string", "number", "integer", "boolean", "object", "array"}
ALLOWED = {
    "first_non_null": EVERY,
    "sum": NUMERIC,
    "average": NUMERIC,
    "min": NUMERIC,
    "max": NUMERIC,
    "all_present": {"boolean"},
    "any_present": {"boolean"},
    "count_present": {"integer"},
    "all_present_and_equal": {"boolean"},
}


def refusal(**changes: Any) -> str:
    with pytest.raises(InvalidDefinition) as caught:
        define(**{**GOOD, **changes})
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
    message.encode()
    return message


def test_a_definition_keeps_its_members_and_has_the_defaults() -> None:
    made = define(**GOOD)
    assert made == Definition("total", "Total", Operation("sum", ("/a", "/b")), "number", "", True, 1, 1)


def test_an_operation_may_be_given_as_a_value() -> None:
    assert define(**{**GOOD, "operation": Operation("sum", ("/a", "/b"))}) == define(**GOOD)


def test_a_refusal_is_one_of_the_platforms_errors() -> None:
    with pytest.raises(TenureError):
        define(**{**GOOD, "key": "1"})


@pytest.mark.parametrize("op", ALLOWED)
@pytest.mark.parametrize("result_type", sorted(EVERY))
def test_each_operation_allows_its_result_types_only(op: str, result_type: str) -> None:
    changes = {"operation": {"op": op, "paths": ["/a", "/b"]}, "result_type": result_type}
    if result_type in ALLOWED[op]:
        assert define(**{**GOOD, **changes}).result_type == result_type
    else:
        assert refusal(**changes).startswith(f"result_type: {op} gives")


@pytest.mark.parametrize("key", ["a", "a" * 63, "a_1", "z9_"])
def test_a_key_of_the_pattern_is_accepted(key: str) -> None:
    assert define(**{**GOOD, "key": key}).key == key


@pytest.mark.parametrize("key", ["", "a" * 64, "_a", "1a", "A", "a-b", "é", "a\n", "a\0", "\ud800", None, 1])
def test_a_key_off_the_pattern_is_named(key: object) -> None:
    assert refusal(key=key).startswith("key:")


@pytest.mark.parametrize(("label", "good"), [("é" * 64, True), ("é" * 64 + "a", False), ("a", True), ("", False)])
def test_a_label_has_1_to_128_bytes(label: str, good: bool) -> None:
    if good:
        assert define(**{**GOOD, "label": label}).label == label
    else:
        assert refusal(label=label).startswith("label:")


def test_a_description_has_at_most_2048_bytes() -> None:
    assert define(**GOOD, description="é" * 1024).description
    assert refusal(description="é" * 1024 + "a").startswith("description: has 2049 bytes")


@pytest.mark.parametrize("member", ["label", "description"])
@pytest.mark.parametrize("text", ["a\0b", "\udfff", None, 7])
def test_text_that_cannot_be_stored_is_refused(member: str, text: object) -> None:
    assert refusal(**{member: text}).startswith(f"{member}:")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("enabled", 1),
        ("enabled", None),
        ("revision", 0),
        ("revision", True),
        ("revision", "1"),
        ("semantics_version", 2),
        ("semantics_version", True),
        ("result_type", "text"),
        ("result_type", ["number"]),
    ],
)
def test_a_wrong_member_is_named(member: str, value: object) -> None:
    assert refusal(**{member: value}).startswith(f"{member}:")


@pytest.mark.parametrize(
    ("operation", "start"),
    [
        (None, "operation:"),
        ([], "operation:"),
        ({"op": "sum"}, "operation:"),
        ({"op": "sum", "paths": ["/a"], "scale": 2}, "operation:"),
        ({"op": "median", "paths": ["/a"]}, "op: median is unknown"),
        ({"op": ["sum"], "paths": ["/a"]}, "op:"),
        ({"op": "sum", "paths": "/a"}, "paths:"),
        ({"op": "sum", "paths": []}, "paths: sum takes 1 to 16 paths, not 0"),
        ({"op": "sum", "paths": ["/a", "/a"]}, "paths: the same"),
        ({"op": "sum", "paths": ["/a", 1]}, "paths: 1 is not a string"),
        ({"op": "all_present_and_equal", "paths": ["/a"]}, "paths: all_present_and_equal takes 2 to 16 paths, not 1"),
    ],
)
def test_a_wrong_operation_is_named(operation: object, start: str) -> None:
    assert refusal(operation=operation).startswith(start)


def test_sixteen_paths_are_accepted_and_seventeen_refused() -> None:
    paths = [f"/{number}" for number in range(17)]
    assert len(field("sum", *paths[:16]).operation.paths) == 16
    assert "1 to 16 paths, not 17" in refusal(operation={"op": "sum", "paths": paths})


def test_a_scope_holds_32_shared_or_16_personal_definitions() -> None:
    definitions = [field("sum", "/a", key=f"f{number}", enabled=number % 2 == 0) for number in range(33)]
    assert len(Evaluator(definitions[:32]).evaluate("{}").values) == 16
    with pytest.raises(InvalidDefinition, match="33 given; a scope holds at most 32"):
        Evaluator(definitions)
    assert Evaluator(definitions[:16], at_most=16)
    with pytest.raises(InvalidDefinition, match="17 given; a scope holds at most 16"):
        Evaluator(definitions[:17], at_most=16)


def test_a_key_may_be_defined_once_per_scope() -> None:
    with pytest.raises(InvalidDefinition, match="twice in one scope"):
        Evaluator([field("sum", "/a"), field("max", "/a")])
