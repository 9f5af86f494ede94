"""What a schema may be: everything else is refused before it can cost anything."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tenure_records.schemas.bounds import IN_PLACE_DEPTH, NUMBER_DIGITS, SCHEMA_BYTES, SCHEMA_DEPTH
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


def _refused(schema: dict[str, Any] | str) -> str:
    started = time.process_time()
    with pytest.raises(SchemaRefused) as refused:
        compile_schema(schema)
    assert time.process_time() - started < 1
    return str(refused.value)


def _chain(links: int, link: dict[str, Any]) -> dict[str, Any]:
    """a0 → a1 → … → the end, each through `link`, in which None stands for the reference."""

    def with_reference(value: Any, reference: dict[str, str]) -> Any:
        if isinstance(value, dict):
            return {key: with_reference(below, reference) for key, below in value.items()}
        if isinstance(value, list):
            return [with_reference(below, reference) for below in value]
        return reference if value is None else value

    defs = {f"a{n}": with_reference(link, {"$ref": f"#/$defs/a{n + 1}"}) for n in range(links)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{links}": {"type": "object"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"type": "string"}, {"not": {"$ref": "#"}}]},
        {"if": {"$ref": "#/else"}, "else": {"$ref": "#"}},
        {"dependentSchemas": {"a": {"$ref": "#"}}},
        {"$dynamicAnchor": "a", "allOf": [{"$dynamicRef": "#a"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": {"$ref": "#"}}},
    ],
)
def test_references_in_a_circle_are_refused(schema: dict[str, Any]) -> None:
    assert "without going deeper" in _refused(schema)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_references_that_double_are_refused(keyword: str) -> None:
    assert "multiply" in _refused(_chain(25, {keyword: [None, None]}))


@pytest.mark.parametrize(
    "below",
    [
        {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
        {"items": {"anyOf": [{"$ref": "#"}, {"not": {"$ref": "#"}}]}},
        {"patternProperties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}},
        {"additionalProperties": {"$ref": "#"}, "unevaluatedProperties": {"$ref": "#"}},
        {"prefixItems": [{"$ref": "#"}], "contains": {"$ref": "#"}},
    ],
)
def test_recursion_that_doubles_at_each_level_is_refused(below: dict[str, Any]) -> None:
    assert "multiply" in _refused(below)


def test_asking_again_and_again_what_was_evaluated_is_refused() -> None:
    schema: dict[str, Any] = {"properties": {"a": True}}
    for _ in range(14):
        schema = {"anyOf": [schema], "unevaluatedProperties": False}
    assert "multiply" in _refused(schema)


def test_recursion_through_thousands_of_subschemas_ends_in_time() -> None:
    grows = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#/$defs/b"}]}}}
    slow = {"b": {"properties": {"a": {"$ref": "#/$defs/b"}}}}
    assert _refused({**grows, "$defs": {**slow, **{f"c{n}": {"items": {"$ref": "#"}} for n in range(4_000)}}})


def test_too_long_a_chain_of_subschemas_for_one_place_is_refused() -> None:
    assert "stand for one place" in _refused(_chain(IN_PLACE_DEPTH, {"not": None}))
    assert compile_schema(_chain(IN_PLACE_DEPTH // 2 - 1, {"not": None}))


def test_recursion_that_descends_is_fine() -> None:
    tree = {"properties": {"children": {"items": {"$ref": "#"}}}, "required": ["name"]}
    assert compile_schema(tree).valid('{"name": 1, "children": [{"name": 2, "children": []}]}')
    assert not compile_schema(tree).valid('{"name": 1, "children": [{"children": []}]}')


def test_patterns_that_are_too_large_together_are_refused() -> None:
    many = {"properties": {f"k{n}": {"pattern": f"(?:[^@]{{1,50}}){{10}}{n}"} for n in range(1_000)}}
    assert "too large together" in _refused(many)


@pytest.mark.parametrize(
    "schema", ['{"maximum": 1e1001}', '{"enum": [[{"a": 1e-1001}]]}', '{"const": %s}' % ("9" * 1001)]
)
def test_numbers_of_endless_digits_in_a_schema_are_refused(schema: str) -> None:
    assert f"more than {NUMBER_DIGITS} digits" in _refused(schema)


def test_one_schema_has_one_draft() -> None:
    inner = {"$id": "urn:other", "$schema": "http://json-schema.org/draft-07/schema#"}
    assert "one draft" in _refused({"$defs": {"a": inner}})
