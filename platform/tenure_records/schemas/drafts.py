"""The two drafts of JSON Schema that are understood, and the URI by which a schema names its own."""

from __future__ import annotations

from enum import Enum

from tenure.model.errors import shortened
from tenure_records.computed import JsonValue
from tenure_records.errors import SchemaRefused


class Draft(Enum):
    """A draft and the URI that `$schema` names it by."""

    DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
    DRAFT_07 = "http://json-schema.org/draft-07/schema"


_NAMES = {Draft.DRAFT_2020_12: "2020-12", Draft.DRAFT_07: "draft-07"}


def draft_of(schema: JsonValue) -> Draft:
    """The draft a schema is written in: 2020-12 unless `$schema` says draft-07. Raises SchemaRefused."""
    if not isinstance(schema, dict) or "$schema" not in schema:
        return Draft.DRAFT_2020_12
    uri = schema["$schema"]
    if not isinstance(uri, str):
        raise SchemaRefused("the schema is refused at /$schema: it must be a string")
    try:
        return Draft(uri.removesuffix("#"))
    except ValueError:
        known = " or ".join(draft.value for draft in Draft)
        raise SchemaRefused(
            f"the schema is refused at /$schema: {shortened(uri)!r} is not known; use {known}"
        ) from None


def name(draft: Draft) -> str:
    return _NAMES[draft]
