"""Verdicts: exact numbers, findings without values, annotations that refuse nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tenure_records.schemas.judge import Finding, compile_schema


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


def test_draft_07_is_judged_by_its_own_rules() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema",
        "items": [{"type": "string"}],
        "additionalItems": False,
    }
    assert findings(schema, '["a", 1]') == [("", "additionalItems")]
