"""Whether a stored document fits a schema, and where it does not. Numbers are exact: int or Decimal, never a float.

`format` and the content keywords are annotations: they refuse nothing, in either draft.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema_rs

from tenure_records.computed import JsonValue, decode
from tenure_records.errors import SchemaRefused, Uninspectable

from .bounds import COMPILED, FINDINGS
from .compiling import Json, checked, validator
from .pointers import pointer

__all__ = ["Finding", "Judge", "SchemaRefused", "Uninspectable", "Verdict", "compile_schema"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a document breaks a rule: a pointer into the document and the keyword of the rule.

    For `required` the pointer names the member that is missing, for `additionalProperties` and `unevaluatedProperties`
    one that may not be there. The value is never part of it.
    """

    pointer: str
    keyword: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a schema says of one document; an invalid one has one to ten findings."""

    valid: bool
    findings: tuple[Finding, ...] = ()


_VALID = Verdict(True)


class Judge:
    """One compiled schema. May be shared between threads."""

    __slots__ = ("_validator",)

    def __init__(self, compiled: jsonschema_rs.Validator) -> None:
        self._validator = compiled

    def valid(self, text: str) -> bool:
        """Whether the document fits. Raises InvalidDocument, Uninspectable."""
        return bool(self._validator.is_valid(decode(text)))

    def judge(self, text: str) -> Verdict:
        """The verdict over one JSON text. Raises InvalidDocument, Uninspectable."""
        document = decode(text)
        if self._validator.is_valid(document):
            return _VALID
        return Verdict(False, _findings(self._validator, document))


def compile_schema(schema: Json | str) -> Judge:
    """The judge for a schema, given as a value or as JSON text. Equal texts share one.

    Raises SchemaRefused: one line with what is wrong and a JSON pointer to it.
    """
    return _compiled(checked(schema))


@lru_cache(maxsize=COMPILED)
def _compiled(text: str) -> Judge:
    return Judge(validator(text))


def _findings(compiled: jsonschema_rs.Validator, document: JsonValue) -> tuple[Finding, ...]:
    found: dict[Finding, None] = {}
    for error in compiled.iter_errors(document):
        for path in _places(error):
            found[Finding(pointer(path), error.kind.name)] = None
        if len(found) >= FINDINGS:
            break
    return tuple(found)[:FINDINGS]


def _places(error: jsonschema_rs.ValidationError) -> Iterator[list[str | int]]:
    kind: Any = error.kind
    if error.kind.name == "required":
        yield [*error.instance_path, kind.property]
    elif error.kind.name in ("additionalProperties", "unevaluatedProperties"):
        for name in kind.unexpected[:FINDINGS]:
            yield [*error.instance_path, name]
    else:
        yield error.instance_path
