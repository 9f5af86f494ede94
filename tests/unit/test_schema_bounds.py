"""What a schema may be: everything else is refused before it can cost anything."""

from __future__ import annotations

import pytest

from tenure_records.schemas.bounds import SCHEMA_BYTES, SCHEMA_DEPTH
from tenure_records.schemas.judge import SchemaRefused, compile_schema


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('{"type": "strin"}', "at /type"),
        ('{"properties": {"a": {"minLength": -1}}}', "at /properties/a/minLength"),
        ('{"multipleOf": 0}', "at /multipleOf"),
        ('{"properties": []}', "at /properties"),
        ('{"$schema": "http://json-schema.org/draft-04/schema#"}', "at /$schema"),
        ('{"$schema": 7}', "at /$schema"),
        ("[]", "JSON object, true or false"),
        ("{", "not JSON"),
        ("1", "JSON object, true or false"),
        (r'{"const": "\u0000"}', r"\u0000"),
        ('{"pattern": "("}', "at /pattern"),
        ('{"patternProperties": {"(?=a)": {}}}', "at /patternProperties/(?=a)"),
    ],
)
def test_a_refusal_says_where_and_what(schema: str, said: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        compile_schema(schema)
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?!a)b", "(?<=a)b", r"(a)\\1", "a{1000}{1000}"])
def test_patterns_that_cannot_be_matched_in_linear_time_are_refused(pattern: str) -> None:
    with pytest.raises(SchemaRefused, match="linear time"):
        compile_schema(f'{{"pattern": "{pattern}"}}')


@pytest.mark.parametrize(
    "uri", ["http://example.org/a.json", "https://example.org/#/a", "file:///etc/passwd", "other.json"]
)
@pytest.mark.parametrize(
    "draft", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
)
def test_references_to_elsewhere_are_refused(uri: str, draft: str) -> None:
    with pytest.raises(SchemaRefused):
        compile_schema({"$schema": draft, "properties": {"a": {"$ref": uri}}})


def test_local_references_are_fine() -> None:
    schema = {
        "$id": "https://example.org/root",
        "$defs": {"a": {"$anchor": "here", "type": "string"}, "b": {"$id": "b", "type": "null"}, "c": {"$dynamicAnchor": "d"}},
        "properties": {
            "1": {"$ref": "#/$defs/a"}, "2": {"$ref": "#here"}, "3": {"$ref": "b"}, "4": {"$dynamicRef": "#d"},
            "5": {"$ref": "https://example.org/b"}, "6": {"$ref": "#"},
        },
    }  # fmt: skip
    assert compile_schema(schema).valid('{"1": "", "2": "", "3": null, "4": 0, "5": null, "6": {"1": ""}}')
    assert not compile_schema(schema).valid('{"6": {"1": 1}}')


def test_a_schema_may_be_as_long_and_as_deep_as_said_and_no_more() -> None:
    def padded(size: int) -> str:
        return '{"description": "' + "x" * (size - 19) + '"}'

    def nested(levels: int) -> str:
        return '{"not": ' * (levels - 1) + "{}" + "}" * (levels - 1)

    assert compile_schema(padded(SCHEMA_BYTES)).valid("{}")
    assert compile_schema(nested(SCHEMA_DEPTH)).valid("{}") == (SCHEMA_DEPTH % 2 == 1)
    for text in (padded(SCHEMA_BYTES + 1), nested(SCHEMA_DEPTH + 1)):
        with pytest.raises(SchemaRefused):
            compile_schema(text)
