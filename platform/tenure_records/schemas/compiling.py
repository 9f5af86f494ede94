"""A schema, checked against every bound before the library compiles it, and compiled with everything off that could reach
outside or take long: no retrieval, linear-time patterns only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import jsonschema_rs
import msgspec

from tenure.model.errors import shortened
from tenure_records.computed import InvalidDocument, JsonValue, decode
from tenure_records.errors import SchemaRefused

from . import doubles
from .alone import KEYWORDS
from .bounds import SCHEMA_BYTES, SCHEMA_DEPTH
from .cost import cost
from .drafts import Draft, draft_of, name
from .patterns import OPTIONS
from .pointers import pointer
from .references import References, references
from .weights import Cost

Json: TypeAlias = "Mapping[str, Any] | bool"

_CLASSES: Final = {
    Draft.DRAFT_2020_12: jsonschema_rs.Draft202012Validator,
    Draft.DRAFT_07: jsonschema_rs.Draft7Validator,
}


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """One schema: its text, the library's validator for it, what it may cost, and whether doubles are exact enough for it."""

    text: str
    validator: jsonschema_rs.Validator
    validator_class: type[jsonschema_rs.Validator]
    cost: Cost
    doubles: bool


_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def checked(schema: Json | str) -> str:
    """The schema as JSON text within the limits of size. Raises SchemaRefused."""
    try:
        text = schema if isinstance(schema, str) else _ENCODER.encode(schema).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise SchemaRefused("the schema holds something that JSON cannot carry, or is nested too deep") from None
    if len(text) > SCHEMA_BYTES or len(text.encode(errors="replace")) > SCHEMA_BYTES:
        raise SchemaRefused(f"the schema is longer than {SCHEMA_BYTES} bytes; split the class or shorten it")
    return text


def compiled(text: str) -> Compiled:
    """A schema text, ready to judge by. Raises SchemaRefused."""
    try:
        schema = decode(text)
    except InvalidDocument as error:
        raise SchemaRefused(str(error).replace("the document", "the schema")) from None
    if not isinstance(schema, dict | bool):
        raise SchemaRefused("the schema must be a JSON object, true or false")
    draft = draft_of(schema)
    _check_depth(schema)
    found = _one_draft(references(schema, draft))
    worst = cost(found)
    try:
        made = _CLASSES[draft](schema, validate_formats=False, pattern_options=OPTIONS, keywords=KEYWORDS, offline=True)
    except jsonschema_rs.ValidationError as error:
        _refuse(error, draft)
    except ValueError as error:
        raise SchemaRefused(f"the schema is refused: {shortened(error)}") from None
    return Compiled(text, made, _CLASSES[draft], worst, doubles.suits(found))


def _one_draft(found: References) -> References:
    for place in found.places.values():
        if isinstance(place.schema, dict) and "$schema" in place.schema and draft_of(place.schema) is not found.draft:
            raise SchemaRefused(
                f"the schema is refused at {pointer((*place.path, '$schema'))}: one schema has one draft"
            )
    return found


def _check_depth(schema: JsonValue) -> None:
    level: list[JsonValue] = [schema]
    for _ in range(SCHEMA_DEPTH):
        level = [child for parent in level for child in _children(parent)]
    if any(isinstance(item, dict | list) for item in level):
        raise SchemaRefused(f"the schema is nested more than {SCHEMA_DEPTH} levels deep; use $defs and $ref")


def _children(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _refuse(error: jsonschema_rs.ValidationError, draft: Draft) -> NoReturn:
    keyword, where = error.kind.name, pointer(error.instance_path)
    if keyword == "$ref":
        raise SchemaRefused(f"the schema is refused: {shortened(error.message, 120)}")
    if keyword == "format":
        raise SchemaRefused(
            f"the schema is refused at {where or '/'}: not a pattern that can be matched in linear time"
        )
    raise SchemaRefused(f"the schema is refused at {where or '/'}: {name(draft)} does not allow it ({keyword})")
