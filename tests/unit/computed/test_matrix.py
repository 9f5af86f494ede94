"""Every operation over every kind of input, for every result type, beside the oracle; and the limits beside a model."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure_records.computed import (
    CODES,
    Evaluator,
    InvalidDefinition,
    define,
    encode,
    evaluator,
    limits,
    meter,
    result,
)
from tests.support import computed_oracle
from tests.support.computed_limits import Bounds, evaluate_within
from tests.support.exact import as_fractions, strictly_equal
from tests.support.tasks import scale

TYPES = ("string", "number", "integer", "boolean", "object", "array")
MAY_GIVE = {
    "first_non_null": TYPES,
    "sum": ("number", "integer"),
    "average": ("number", "integer"),
    "min": ("number", "integer"),
    "max": ("number", "integer"),
    "all_present": ("boolean",),
    "any_present": ("boolean",),
    "count_present": ("integer",),
    "all_present_and_equal": ("boolean",),
}
INPUTS = {
    "missing": None, "null": "null", "true": "true", "false": "false", "zero": "0", "int": "7", "negative": "-3",
    "whole decimal": "7.0", "decimal": "2.50", "scientific": "25e-1", "beyond float": "9007199254740993",
    "34 digits": "0." + "1" * 34, "35 digits": "0." + "1" * 35, "1e308": "1e308", "1e309": "1e309", "1e-309": "1e-309",
    "empty string": '""', "string": '"x"', "digits": '"7"', "empty array": "[]", "array": "[1, null]",
    "empty object": "{}", "object": '{"k": [1.0]}',
}  # fmt: skip
PLACES = {"top level": ("/a", "/b"), "nested": ("/in/a", "/in/b"), "array": ("/at/0", "/at/1")}


def document(a: str | None, b: str | None) -> str:
    named = ", ".join(f'"{name}": {text}' for name, text in (("a", a), ("b", b)) if text is not None)
    listed = f"{a or 'null'}" if b is None else f"{a or 'null'}, {b}"
    return f'{{{named}{", " if named else ""}"in": {{{named}}}, "at": [{listed}]}}'


@pytest.mark.parametrize("op", MAY_GIVE)
def test_every_operation_does_what_the_rules_say_of_every_pair_of_inputs_and_every_type(op: str) -> None:
    fields = [
        {"key": f"f{number}", "operation": {"op": op, "paths": list(paths)}, "result_type": result_type}
        for number, (result_type, paths) in enumerate(itertools.product(MAY_GIVE[op], PLACES.values()))
    ]
    evaluate = Evaluator([define(label="x", **field) for field in fields]).evaluate  # type: ignore[arg-type]
    seen: set[str] = set()
    for a, b in itertools.product(INPUTS.values(), repeat=2):
        text = document(a, b)
        found = evaluate(text)
        values, codes = computed_oracle.evaluate(text, fields)
        assert found.errors == codes, text
        assert strictly_equal(as_fractions(found.values), values), text
        seen |= set(codes.values())
    expected = {"non_numeric_operand", "numeric_out_of_range", "non_integer_result"}
    assert seen == {
        "first_non_null": {"result_type_mismatch", "numeric_out_of_range", "non_integer_result"},
        "all_present_and_equal": {"numeric_out_of_range"},
    }.get(op, expected if "number" in MAY_GIVE[op] else set())


@pytest.mark.parametrize("op", MAY_GIVE)
def test_a_type_that_an_operation_cannot_give_is_refused(op: str) -> None:
    for result_type in (*TYPES, "null", "decimal", ""):
        operation = {"op": op, "paths": ["/a", "/b"]}
        if result_type in MAY_GIVE[op]:
            define(key="f", label="f", operation=operation, result_type=result_type)
        else:
            with pytest.raises(InvalidDefinition, match=r"^result_type: "):
                define(key="f", label="f", operation=operation, result_type=result_type)


@pytest.mark.parametrize("op", MAY_GIVE)
def test_one_path_and_sixteen_are_read_in_order(op: str) -> None:
    paths = [f"/{number}" for number in range(16)]
    for result_type in MAY_GIVE[op]:
        for count in (2, 16) if op == "all_present_and_equal" else (1, 16):
            field = {"key": "f", "operation": {"op": op, "paths": paths[:count]}, "result_type": result_type}
            evaluate = Evaluator([define(label="x", **field)]).evaluate  # type: ignore[arg-type]
            for text in ("[null, 5, 4]", "[]", json.dumps([3] * 16), json.dumps([*range(16)])):
                values, codes = computed_oracle.evaluate(text, [field])
                assert evaluate(text).errors == codes
                assert strictly_equal(as_fractions(evaluate(text).values), values)


def test_one_document_has_one_outcome_whatever_the_order_of_its_members() -> None:
    """What ends a comparison must not depend on which member the text names first."""
    long = ", ".join(["1"] * 10_000)
    field = define(
        key="f", label="f", operation={"op": "all_present_and_equal", "paths": ["/l", "/r"]}, result_type="boolean"
    )
    for heavy in (f"[{long}]", "1e400"):
        ends = {
            encode([found.values["f"], found.errors.get("f")])
            for order in ('"a": {0}, "b": {1}', '"b": {1}, "a": {0}')
            for found in [
                Evaluator([field]).evaluate(
                    '{"l": {' + order.format(heavy, 1) + '}, "r": {' + order.format(heavy, 2) + "}}"
                )
            ]
        }
        assert len(ends) == 1


# Every limit, at sizes that drawn documents reach.
BOUNDS = Bounds(input_bytes=160, depth=200, field_nodes=8, scope_work=20, field_bytes=24, scope_bytes=110)
_leaves = st.one_of(
    st.integers(0, 2).map(str), st.sampled_from(["null", "true", '"x"', '"' + "é" * 9 + '"', '"\\n\\u0001"'])
)
_trees = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: "[" + ", ".join(items) + "]"),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda items: "{" + ", ".join(f'"{name}": {item}' for name, item in items.items()) + "}"
        ),
    ),
    max_leaves=12,
)  # fmt: skip
_runs = st.integers(0, 9).map(lambda count: "[" + ", ".join(["1"] * count) + "]")
_documents = st.tuples(_trees | _runs, _trees | _runs, st.booleans()).map(
    lambda drawn: f'{{"a": {drawn[0]}, "b": {drawn[0] if drawn[2] else drawn[1]}}}'
)
_paths = st.sampled_from(["/a", "/b", "/a/a", "/b/0", "", "/b/b"])


@st.composite
def _fields(draw: st.DrawFn) -> dict[str, Any]:
    op = draw(st.sampled_from(["first_non_null", "all_present_and_equal", "all_present_and_equal", "count_present"]))
    paths = draw(st.lists(_paths, min_size=2, max_size=4, unique=True))
    return {"operation": {"op": op, "paths": paths}, "result_type": draw(st.sampled_from(MAY_GIVE[op]))}


def test_the_limits_strike_where_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "MAX_INPUT_BYTES", BOUNDS.input_bytes)
    monkeypatch.setattr(evaluator, "MAX_SCOPE_OUTPUT_BYTES", BOUNDS.scope_bytes)
    monkeypatch.setattr(evaluator, "_SCOPE_SURELY_FITS", -1)
    monkeypatch.setattr(meter, "MAX_FIELD_NODES", BOUNDS.field_nodes)
    for module in (meter, limits):  # who counts, and who decides whether counting is needed
        monkeypatch.setattr(module, "MAX_SCOPE_WORK", BOUNDS.scope_work)
    monkeypatch.setattr(result, "MAX_FIELD_OUTPUT_BYTES", BOUNDS.field_bytes)
    seen: set[str] = set()

    @settings(
        max_examples=scale(6_000, 500), deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(_documents, st.lists(_fields(), min_size=1, max_size=6))
    def agree(text: str, drawn: list[dict[str, Any]]) -> None:
        named = [{**one, "key": f"f{number}"} for number, one in enumerate(drawn)]
        found = Evaluator([define(label="x", **one) for one in named]).evaluate(text)
        values, codes = evaluate_within(BOUNDS, text, named)
        assert found.errors == codes
        assert strictly_equal(as_fractions(found.values), values)
        seen.update(codes.values())

    agree()
    assert seen >= {"input_too_large", "evaluation_limit_exceeded", "result_too_large", "result_type_mismatch"}
    assert seen <= CODES.keys()
