from __future__ import annotations

import json

import pytest

from tenure_records.computed import Definition, DocumentTooDeep, Evaluation, Evaluator, decode, document_digest, encode
from tests.support.computed_fields import field, outcome

KIB = 1024


def equality(key: str = "f") -> Definition:
    return field("all_present_and_equal", "/a", "/b", key=key, result_type="boolean")


def all_carry(evaluation: Evaluation, keys: set[str], code: str) -> bool:
    return evaluation.values == dict.fromkeys(keys) and evaluation.errors == dict.fromkeys(keys, code)


def three_fields() -> Evaluator:
    return Evaluator(
        [
            field("any_present", "/a", key="one", result_type="boolean"),
            field("sum", "/b", key="two"),
            field("sum", "/b", key="off", enabled=False),
        ]
    )


@pytest.mark.parametrize("character", ["x", "é", "😀"])
def test_an_input_of_1_mib_is_evaluated_and_one_byte_more_marks_every_enabled_field(character: str) -> None:
    frame = len('{"a": "", "b": 2}')
    filler, rest = divmod(KIB * KIB - frame, len(character.encode()))
    text = '{"a": "' + character * filler + "x" * rest + '", "b": 2}'
    assert len(text.encode()) == KIB * KIB
    evaluation = three_fields().evaluate(text)
    assert (evaluation.values, evaluation.errors) == ({"one": True, "two": 2}, {})
    over = three_fields().evaluate(text + " ")
    assert all_carry(over, {"one", "two"}, "input_too_large")
    assert over.digest == document_digest(text + " ")


def test_a_document_nested_too_deep_marks_every_enabled_field() -> None:
    deepest = '{"a": 1, "b": 2, "c": ' + "[" * 199 + "]" * 199 + "}"
    assert three_fields().evaluate(deepest).errors == {}
    deeper = deepest.replace("[]", "[[]]")
    with pytest.raises(DocumentTooDeep):
        decode(deeper)
    evaluation = three_fields().evaluate(deeper)
    assert all_carry(evaluation, {"one", "two"}, "evaluation_limit_exceeded")
    assert evaluation.digest == document_digest(deeper)


def test_a_field_may_use_10000_nodes() -> None:
    # Two tokens, the pair of arrays, and a pair for each element.
    fits = json.dumps({"a": [1] * 9_997, "b": [1] * 9_997})
    assert outcome(fits, equality()) == (True, None)
    over = json.dumps({"a": [1] * 9_998, "b": [1] * 9_998})
    assert outcome(over, equality()) == (None, "evaluation_limit_exceeded")


def test_comparing_stops_at_the_first_difference() -> None:
    differs_early = json.dumps({"a": [1, 0] + [1] * 20_000, "b": [1, 2] + [1] * 20_000})
    assert outcome(differs_early, equality()) == (False, None)
    differs_in_length = json.dumps({"a": [1] * 20_000, "b": [1] * 20_001})
    assert outcome(differs_in_length, equality()) == (False, None)


def test_a_scope_may_use_50000_units_of_work_and_later_fields_fail() -> None:
    text = json.dumps({"a": [1] * 9_997, "b": [1] * 9_997, "c": 3})
    five = [equality(f"f{number}") for number in range(5)]
    evaluation = Evaluator(five).evaluate(text)
    assert (set(evaluation.values.values()), evaluation.errors) == ({True}, {})
    evaluation = Evaluator([*five, field("sum", "/c", key="z")]).evaluate(text)
    assert evaluation.values == {**dict.fromkeys(["f0", "f1", "f2", "f3", "f4"], True), "z": None}
    assert evaluation.errors == {"z": "evaluation_limit_exceeded"}
    # The whole document has no token to follow: nothing to charge.
    whole = field("first_non_null", "", key="z", result_type="string")
    assert Evaluator([*five, whole]).evaluate(text).errors == {"z": "result_type_mismatch"}


def test_the_work_limit_falls_on_the_same_fields_in_any_order() -> None:
    text = json.dumps({"a": [1] * 9_000, "b": [1] * 9_000})
    seven = [equality(f"f{number}") for number in range(7)]
    forward, backward = Evaluator(seven).evaluate(text), Evaluator(seven[::-1]).evaluate(text)
    assert forward == backward
    assert set(forward.errors) == {"f5", "f6"}
    assert encode(forward.values) == encode(backward.values)


@pytest.mark.parametrize(("character", "size"), [("x", 1), ("é", 2), ("\\n", 2), ("\\u0001", 6)])
def test_a_string_of_64_kib_is_kept_and_one_byte_more_is_not(character: str, size: int) -> None:
    filler, rest = divmod(64 * KIB - 2, size)
    fits = '{"a": "' + character * filler + "x" * rest + '"}'
    definition = field("first_non_null", "/a", result_type="string")
    value, code = outcome(fits, definition)
    assert code is None
    assert len(encode(value).encode()) == 64 * KIB
    assert outcome(fits.replace('"}', 'x"}'), definition) == (None, "result_too_large")


def test_a_container_of_64_kib_is_kept_and_one_byte_more_is_not() -> None:
    for result_type, opening, closing in (("array", '["', '"]'), ("object", '{"k": "', '"}')):
        frame = len(opening.replace(" ", "")) + len(closing)
        fits = f'{{"a": {opening}{"x" * (64 * KIB - frame)}{closing}}}'
        definition = field("first_non_null", "/a", result_type=result_type)
        value, code = outcome(fits, definition)
        assert code is None
        assert len(encode(value)) == 64 * KIB
        assert outcome(fits.replace(closing, "x" + closing), definition) == (None, "result_too_large")


def test_a_scope_of_256_kib_is_kept_and_one_byte_more_marks_every_field() -> None:
    definitions = [field("first_non_null", f"/{key}", key=key, result_type="string") for key in "abcdef"]
    empty = {"errors": {"f": "result_type_mismatch"}, "values": {**dict.fromkeys("abcde", ""), "f": None}}
    each, rest = divmod(256 * KIB - len(encode(empty)), 5)  # type: ignore[arg-type]
    strings = dict.fromkeys("abcd", "x" * each) | {"e": "x" * (each + rest)}
    evaluation = Evaluator(definitions).evaluate(json.dumps({**strings, "f": 1}))
    assert evaluation.values == {**strings, "f": None}
    assert evaluation.errors == {"f": "result_type_mismatch"}
    text = json.dumps({**strings, "f": 1, "a": strings["a"] + "x"})
    over = Evaluator(definitions).evaluate(text)
    assert all_carry(over, set("abcdef"), "result_too_large")
    assert over.digest == document_digest(text)
