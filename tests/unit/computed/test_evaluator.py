"""The evaluator beside a naive one written from the rules alone, over drawn documents and definitions."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure_records.computed import Evaluator, canonical, decode, define, encode
from tests.support import computed_oracle
from tests.support.exact import as_fractions, strictly_equal

NAMES = ["a", "b", "c", "a/b", "m~n", "~1", "", "0", "01", "é"]
RESULT_TYPES = {
    "first_non_null": ["string", "number", "integer", "boolean", "object", "array"],
    **{op: ["number", "integer"] for op in ("sum", "average", "min", "max")},
    **{op: ["boolean"] for op in ("all_present", "any_present", "all_present_and_equal")},
    "count_present": ["integer"],
}
NUMBERS = [
    "0",
    "-0.0",
    "0e999",
    "1",
    "1.0",
    "10e-1",
    "-1",
    "2",
    "0.5",
    "-0.5",
    "0.1",
    "1e34",
    "3e33",
    "9" * 34,
    "9" * 35,
]
NUMBERS += [
    "1" + "0" * 32 + "1",
    "1" * 35,
    "0." + "3" * 34,
    "0." + "3" * 35,
    "5e-30",
    "1e308",
    "9e308",
    "-9e308",
    "1e309",
]
NUMBERS += [
    "1e-308",
    "-1e-308",
    "1e-309",
    "7e-340",
    "1" + "0" * 308,
    "1" + "0" * 309,
    "18446744073709551616",
    "1e4000",
]

numbers = st.one_of(
    st.sampled_from(NUMBERS),
    st.integers(-30, 30).map(str),
    st.decimals(-1000, 1000, places=3).map(str),
    st.builds("{}e{}".format, st.integers(1, 10**34), st.integers(-345, 310)),
)
scalars = st.one_of(
    numbers, st.sampled_from(["null", "true", "false"]), st.text('ab1é"\\\n', max_size=3).map(json.dumps)
)


def array_of(items: list[str]) -> str:
    return "[" + ", ".join(items) + "]"


def object_of(items: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {item}" for name, item in items.items()) + "}"


texts = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(array_of),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=4).map(object_of),
    ),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from(NAMES), texts, min_size=2, max_size=8).map(object_of)
tokens = st.sampled_from([name.replace("~", "~0").replace("/", "~1") for name in NAMES])
pointers = st.lists(tokens, max_size=3).map(lambda parts: "".join("/" + part for part in parts))


@st.composite
def definitions(draw: st.DrawFn, paths: st.SearchStrategy[str] = pointers) -> dict[str, Any]:
    op = draw(st.sampled_from(sorted(RESULT_TYPES)))
    drawn = draw(st.lists(paths, min_size=2, max_size=4, unique=True))
    return {"operation": {"op": op, "paths": drawn}, "result_type": draw(st.sampled_from(RESULT_TYPES[op]))}


def respelled(value: Any) -> str:
    """Another text of an equal value: keys the other way round, numbers in scientific notation."""
    if isinstance(value, dict):
        return object_of({name: respelled(value[name]) for name in reversed(value)})
    if isinstance(value, list):
        return array_of([respelled(item) for item in value])
    return f"{value:E}" if isinstance(value, Decimal) else json.dumps(value)


def agree(text: str, drawn: list[dict[str, Any]]) -> None:
    named = [{**one, "key": f"f{index}"} for index, one in enumerate(drawn)]
    evaluation = Evaluator([define(label="x", **one) for one in named]).evaluate(text)
    values, codes = computed_oracle.evaluate(text, named)
    assert evaluation.errors == codes
    assert strictly_equal(as_fractions(evaluation.values), values)
    assert strictly_equal(as_fractions(decode(encode(evaluation.values))), values)


def examples(count: int) -> settings:
    return settings(
        max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
    )


@examples(400)
@given(documents, st.lists(definitions(), min_size=1, max_size=4))
def test_the_evaluator_agrees_with_the_oracle(text: str, drawn: list[dict[str, Any]]) -> None:
    agree(text, drawn)


@examples(500)
@given(
    st.lists(st.one_of(numbers, numbers, st.just("null")), min_size=2, max_size=5).map(array_of),
    st.lists(definitions(st.sampled_from(["/0", "/1", "/2", "/3", "/4"])), min_size=1, max_size=4),
)
def test_the_evaluator_agrees_with_the_oracle_on_numbers(text: str, drawn: list[dict[str, Any]]) -> None:
    agree(text, drawn)


@examples(300)
@given(texts, st.one_of(st.none(), texts))
def test_the_evaluator_agrees_with_the_oracle_on_equality(one: str, other: str | None) -> None:
    # None: the same value in another spelling.
    again = other or respelled(json.loads(one, parse_int=Decimal, parse_float=Decimal))
    equality = {"operation": {"op": "all_present_and_equal", "paths": ["/a", "/b"]}, "result_type": "boolean"}
    agree(object_of({"a": one, "b": again}), [equality])


@examples(300)
@given(texts, st.one_of(st.none(), texts))
def test_canonical_bytes_are_equal_exactly_when_the_values_are(left: str, other: str | None) -> None:
    def exact(text: str) -> Any:
        return json.loads(text, parse_int=Fraction, parse_float=Fraction)

    right = other or respelled(json.loads(left, parse_int=Decimal, parse_float=Decimal))

    same = strictly_equal(exact(left), exact(right))
    assert (canonical(decode(left)) == canonical(decode(right))) is same
    again = canonical(decode(canonical(decode(left))))
    assert again == canonical(decode(left))


def test_equal_documents_give_equal_bytes_whatever_their_spelling() -> None:
    evaluator = Evaluator(
        [
            define(key=key, label=key, operation={"op": op, "paths": paths}, result_type=result_type)
            for key, op, paths, result_type in (
                ("whole", "first_non_null", [""], "object"),
                ("sum", "sum", ["/n", "/m/x"], "number"),
                ("first", "first_non_null", ["/m"], "object"),
                ("bad", "sum", ["/m"], "number"),
            )
        ]
    )
    one = evaluator.evaluate('{"n": 1.50, "m": {"x": 1e2, "y": [1.0, 10.10]}}')
    other = evaluator.evaluate('{"m":{"y":[1,10.1],"x":100.000},"n":15e-1}')
    assert one == other
    assert encode(one.values) == encode(other.values)
    assert encode(one.values) == (
        '{"bad":null,"first":{"x":100,"y":[1,10.1]},"sum":101.5,"whole":{"m":{"x":100,"y":[1,10.1]},"n":1.5}}'
    )


def test_an_evaluator_gives_the_same_result_again_and_in_any_order_of_definitions() -> None:
    named = [
        define(key=f"k{index}", label="x", operation={"op": "max", "paths": [f"/{index}"]}, result_type="number")
        for index in range(20)
    ]
    text = json.dumps([index * 3 for index in range(20)])
    expected = Evaluator(named).evaluate(text)
    shuffler = random.Random(7)
    for _ in range(5):
        shuffler.shuffle(named)
        evaluation = Evaluator(named).evaluate(text)
        assert evaluation == expected
        assert list(evaluation.values) == list(expected.values)
