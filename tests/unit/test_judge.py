"""Verdicts: exact numbers, findings without values, annotations that refuse nothing."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tenure_records.computed import InvalidDocument
from tenure_records.schemas import doubles
from tenure_records.schemas.judge import Finding, compile_schema
from tests.support.tasks import scale


def findings(schema: dict[str, Any], document: str) -> list[tuple[str, str]]:
    return [(finding.pointer, finding.keyword) for finding in compile_schema(schema).judge(document).findings]


def test_a_fitting_document_has_no_findings() -> None:
    verdict = compile_schema({"type": "object"}).judge("{}")
    assert (verdict.valid, verdict.findings) == (True, ())


def test_a_finding_points_at_the_value_and_names_the_keyword() -> None:
    schema = {"properties": {"rooms": {"items": {"properties": {"a/b~c": {"minimum": 3}}}}}}
    assert findings(schema, '{"rooms": [{}, {"a/b~c": 1}]}') == [("/rooms/1/a~1b~0c", "minimum")]


def test_a_missing_member_is_named_by_its_own_pointer() -> None:
    assert findings({"required": ["code"]}, '{"name": "x"}') == [("/code", "required")]


def test_a_member_that_may_not_be_there_is_named() -> None:
    schema = {"properties": {"code": {}}, "additionalProperties": False}
    assert findings(schema, '{"code": 1, "secret": 2}') == [("/secret", "additionalProperties")]


def test_at_most_ten_findings_are_kept_and_none_twice() -> None:
    many = findings({"items": {"type": "string"}}, "[" + ",".join("1" * 50) + "]")
    assert many == [(f"/{n}", "type") for n in range(10)]
    assert findings({"allOf": [{"type": "string"}, {"type": "string"}]}, "{}") == [("", "type")]


def test_a_finding_never_holds_the_value() -> None:
    found = compile_schema({"properties": {"a": {"enum": ["x"]}, "b": {"const": 1}, "c": {"type": "null"}}})
    assert "secret" not in repr(found.judge('{"a": "secret", "b": "secret", "c": "secret"}'))


def test_a_long_pointer_is_cut() -> None:
    (found,) = compile_schema({"additionalProperties": {"type": "null"}}).judge(f'{{"{"k" * 999}": 1}}').findings
    assert found == Finding("/" + "k" * 253 + "…", "type")


@pytest.mark.parametrize(
    ("schema", "document", "valid"),
    [
        ('{"multipleOf": 0.01}', "0.07", True),
        ('{"multipleOf": 0.01}', "19.99", True),
        ('{"multipleOf": 0.01}', "1234567890123456789012345678.91", True),
        ('{"multipleOf": 0.01}', "0.075", False),
        ('{"multipleOf": 0.01}', "1234567890123456789012345678.915", False),
        ('{"multipleOf": 1e-8}', "12391239123", True),
        ('{"multipleOf": 0.3}', "0.9", True),
        ('{"multipleOf": 3}', "9007199254740993", True),
        ('{"multipleOf": 3}', "9007199254740992", False),
        ('{"multipleOf": 1}', "20012980075235004.4", False),
        ('{"multipleOf": 1}', "20012980075235004.0", True),
        ('{"multipleOf": 3}', "4905949597963571.96", False),
        ('{"multipleOf": 0.5}', "4503599627370497.2", False),
        ('{"multipleOf": 1e5}', "43430.220374e20", True),
        ('{"multipleOf": 0.64}', "3150162325433991e3", False),
        ('{"multipleOf": 1e-7}', "1e308", True),
        ('{"multipleOf": 3}', "3" + "0" * 400, True),
        ('{"maximum": 1}', "1.00000000000000000001e0", False),
        ('{"multipleOf": 2e0}', "178174118473924945223573536879.967", False),
        ('{"properties": {"a": {"items": {"multipleOf": 39}}}}', '{"a": [20012980075235004.4]}', False),
        ('{"properties": {"a": {"items": {"multipleOf": 39}}}}', '{"a": [39, 78.0, -117, 0]}', True),
        ('{"const": 9007199254740993}', "9007199254740992", False),
        ('{"const": 9007199254740993}', "9007199254740993", True),
        ('{"const": 9007199254740993}', "9007199254740993.0", True),
        ('{"enum": [0.1]}', "0.10", True),
        ('{"enum": [0.1]}', "0.1000000000000000055511151231257827", False),
        ('{"enum": [[0.1]]}', "[0.1000000000000000055511151231257827]", False),
        ('{"maximum": 9007199254740992}', "9007199254740993", False),
        ('{"maximum": 0.3}', "0.30000000000000000000001", False),
        ('{"exclusiveMinimum": 0.3}', "0.30000000000000000000001", True),
        ('{"minimum": 18446744073709551616}', "18446744073709551615", False),
        ('{"minimum": -18446744073709551616}', "-18446744073709551617", False),
        ('{"const": 0}', "-0", True),
        ('{"const": 0}', "-0.0", True),
        ('{"minimum": 0}', "-0.0", True),
        ('{"type": "integer"}', "1.0", True),
        ('{"type": "integer"}', "1e2", True),
        ('{"type": "integer"}', "1.5e1", True),
        ('{"type": "integer"}', "1e400", True),
        ('{"type": "integer"}', "9007199254740993.5", False),
        ('{"maximum": 1e400}', "1e401", False),
        ('{"maximum": 1e401}', "1e400", True),
        ('{"minimum": 1e-400}', "1e-401", False),
        ('{"uniqueItems": true}', "[1, 1.0]", False),
        ('{"uniqueItems": true}', "[9007199254740992, 9007199254740993]", True),
        ('{"uniqueItems": true}', "[0.1, 0.1000000000000000055511151231257827]", True),
        ('{"uniqueItems": true}', '[{"a": 1}, {"a": 1.0}]', False),
        ('{"type": "number"}', "9" * 5000, True),
        ('{"type": "integer"}', "9" * 5000, True),
        ('{"maximum": 1}', "9" * 5000, False),
    ],
)  # fmt: skip
def test_numbers_are_judged_exactly(schema: str, document: str, valid: bool) -> None:
    assert compile_schema(schema).valid(document) is valid


@pytest.mark.parametrize(
    "draft", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
)
def test_format_is_an_annotation(draft: str) -> None:
    for name in ("email", "date-time", "ipv4", "regex", "unheard-of"):
        assert compile_schema({"$schema": draft, "format": name}).valid('"none of these ("')


def test_content_is_an_annotation_in_2020_12_and_a_rule_in_draft_07() -> None:
    for content in ({"contentEncoding": "base64"}, {"contentMediaType": "application/json"}):
        assert compile_schema(content).valid('"{"')
        assert not compile_schema({"$schema": "http://json-schema.org/draft-07/schema#", **content}).valid('"{"')


def test_draft_07_is_judged_by_its_own_rules() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema",
        "items": [{"type": "string"}],
        "additionalItems": False,
    }
    assert findings(schema, '["a", 1]') == [("", "additionalItems")]


def _short_number(rng: random.Random) -> str:
    """At most 15 digits: what is read as a double where that is exact."""
    digits = str(rng.randrange(10 ** rng.randrange(1, 16)))
    point = rng.randrange(len(digits) + 1)
    return (
        rng.choice(["", "-"]) + (digits[:point].lstrip("0") or "0") + ("." + digits[point:] if digits[point:] else "")
    )


def _neighbour(rng: random.Random, number: str) -> str:
    """The same number, or one that differs in the last digit."""
    sign, digits, exponent = Decimal(number).as_tuple()
    moved = abs(int("".join(map(str, digits))) + rng.choice([-1, 0, 1]))
    return format(Decimal((sign, tuple(map(int, str(moved))), int(exponent))), "f")


def test_numbers_read_as_doubles_are_judged_as_fractions_compare() -> None:
    rng = random.Random(7)
    for _ in range(scale(20_000, 1_500)):
        limit = _short_number(rng)
        given = _neighbour(rng, limit) if rng.random() < 0.6 else _short_number(rng)
        exact, bound = Fraction(given), Fraction(limit)
        expected = {
            f'{{"maximum": {limit}}}': exact <= bound,
            f'{{"exclusiveMinimum": {limit}}}': exact > bound,
            f'{{"enum": ["a", {limit}]}}': exact == bound,
            f'{{"not": {{"const": {limit}}}}}': exact != bound,
            '{"type": "integer"}': exact.denominator == 1,
        }
        if bound > 0:
            expected[f'{{"multipleOf": {limit}}}'] = (exact / bound).denominator == 1
        for schema, valid in expected.items():
            assert (schema, given, compile_schema(schema).valid(given)) == (schema, given, valid)
        assert compile_schema('{"uniqueItems": true}').valid(f"[{given}, {limit}]") is (exact != bound)


@pytest.mark.parametrize(
    "number",
    ["1e-330", "0.123456789012345", "12345678901234.25", "1234567890123456e-3", "1e309", "1E-330", "-2.5e-990"],
)
def test_a_number_that_no_double_keeps_is_not_read_as_one(number: str) -> None:
    for text in (number, f"[{number}]", f'{{"a": {number}, "b": 1.5}}'):
        with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind: the exact reader takes over
            doubles.read(text)
    assert not compile_schema('{"const": 0}').valid(number)
    assert compile_schema(f'{{"const": {number}}}').valid(number)


def test_a_schema_of_longer_numbers_has_its_documents_read_exactly() -> None:
    close = '{"maximum": 0.30000000000000004, "minimum": 0.30000000000000002}'
    assert not compile_schema(close).valid("0.3")
    assert compile_schema(close).valid("0.30000000000000003")
    assert compile_schema('{"not": {"const": 9007199254740993}}').valid("9007199254740992.0")


@pytest.mark.parametrize("schema", ["{}", '{"maximum": 0.12345678901234567}'], ids=["doubles", "exact"])
@pytest.mark.parametrize(
    "text",
    ["{", "", "NaN", "[1,]", '"\ud800"', r'"\ud800"', r'"\u0000"', "[" * 201 + "]" * 201, "[" * 100_000, "1e999999"],
)
def test_what_cannot_be_stored_is_not_judged(schema: str, text: str) -> None:
    for ask in (compile_schema(schema).valid, compile_schema(schema).judge):
        with pytest.raises(InvalidDocument):
            ask(text)
