"""Whether a stored document fits a schema, and where it does not. Numbers are exact: nothing is ever rounded.

`format` is an annotation and refuses nothing. So are `contentEncoding` and `contentMediaType` in 2020-12; in draft-07 they
are rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tenure_records.computed import InvalidDocument, JsonValue, NumberOutOfRange, decode, decode_ordinary
from tenure_records.errors import SchemaRefused, Uninspectable

from . import doubles
from .alone import broken_rules
from .aside import ASIDE, Places
from .bounds import COMPILED, FINDINGS
from .budget import Budget
from .compiling import Compiled, Json, checked, compiled
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


# Of a document that is invalid in so many or so hidden places that naming one takes too long.
SOMEWHERE: Final = Finding("", "somewhere")

_VALID: Final = Verdict(True)
_ASIDE: Final = object()


class Judge:
    """One compiled schema. May be shared between threads and inherited by forked processes."""

    __slots__ = ("_budget", "_schema")

    def __init__(self, schema: Compiled) -> None:
        self._schema = schema
        self._budget = Budget(schema.cost)

    def valid(self, text: str) -> bool:
        """Whether the document fits. Raises InvalidDocument, Uninspectable."""
        document = self._here(text)
        return (
            bool(self._schema.validator.is_valid(document))
            if document is not _ASIDE
            else ASIDE.valid(self._schema, text)
        )

    def judge(self, text: str) -> Verdict:
        """The verdict over one JSON text. Raises InvalidDocument, Uninspectable."""
        document = self._here(text)
        if document is not _ASIDE:
            if self._schema.validator.is_valid(document):
                return _VALID
            if self._budget.admits_findings(text):
                return _invalid(broken_rules(self._schema.validator, document, FINDINGS))
        valid, places = ASIDE.judge(self._schema, text)
        return _VALID if valid else _invalid(places)

    def _here(self, text: str) -> JsonValue | object:
        """The document to be judged in this process, or _ASIDE for one whose worst case is too slow for that."""
        if self._schema.doubles:
            try:
                document: JsonValue = doubles.read(text)
                return document if self._budget.admits(text) else _ASIDE
            except InvalidDocument:
                raise
            except (ValueError, RecursionError):
                pass
        try:
            document = decode_ordinary(text)
        except NumberOutOfRange:
            decode(text)
            return _ASIDE
        return document if self._budget.admits(text) else _ASIDE


def compile_schema(schema: Json | str) -> Judge:
    """The judge for a schema, given as a value or as JSON text. Equal texts share one.

    Raises SchemaRefused: one line with what is wrong and a JSON pointer to it.
    """
    return _compiled(checked(schema))


@lru_cache(maxsize=COMPILED)
def _compiled(text: str) -> Judge:
    return Judge(compiled(text))


def _invalid(places: Places) -> Verdict:
    if not places:
        return Verdict(False, (SOMEWHERE,))
    found = dict.fromkeys(Finding(pointer(path), keyword) for path, keyword in places)
    return Verdict(False, tuple(found))
