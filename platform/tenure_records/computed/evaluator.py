"""Evaluates the enabled definitions of one scope over one document. Built once per revision of a class.

Bad data never raises: the field becomes null beside a code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from . import errors, limits
from .definition import Definition
from .document import JsonValue, decode
from .encoding import canonical, digest
from .limits import MAX_INPUT_BYTES, MAX_SCOPE_OUTPUT_BYTES, MAX_SHARED_DEFINITIONS
from .meter import Meter
from .operations import CATALOGUE, Values
from .pointer import parse, reader
from .result import SCALAR_BYTES, conforming, whole

# The values alone; what is left is more than 32 keys of 63 bytes, twice, with their codes can need.
_SCOPE_SURELY_FITS: Final = MAX_SCOPE_OUTPUT_BYTES - 16 * 1024


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`values` has every enabled key, null where `errors` has its code; `digest` is `document_digest` of the text."""

    values: dict[str, JsonValue]
    errors: dict[str, str]
    digest: str


@dataclass(frozen=True, slots=True)
class _Field:
    """`check` is what is left to do with what `run` gives; None when it can only be right, and small."""

    key: str
    read: Callable[[JsonValue], Values]
    run: Callable[[Values, Meter], JsonValue]
    check: Callable[[JsonValue], tuple[JsonValue, int]] | None
    tokens: int


class Evaluator:
    """The definitions of one scope, compiled. Keeps nothing between calls: threads may share it."""

    def __init__(self, definitions: Sequence[Definition], *, at_most: int = MAX_SHARED_DEFINITIONS) -> None:
        """`at_most` is the scope's limit: 32 shared (the default) or 16 personal, disabled ones counted.

        Raises InvalidDefinition: too many, or one key twice.
        """
        if len(definitions) > at_most:
            raise errors.InvalidDefinition(f"definitions: {len(definitions)} given; a scope holds at most {at_most}")
        if len({definition.key for definition in definitions}) != len(definitions):
            raise errors.InvalidDefinition("key: the same key is defined twice in one scope")
        # Sorted, so that the scope's work limit falls on the same fields however the rows were read.
        ordered = sorted(definitions, key=lambda definition: definition.key)
        self._fields = tuple(_compiled(definition) for definition in ordered if definition.enabled)
        # Paths alone never use up what a scope may: only comparing is worth counting.
        self._metered = sum(field.tokens for field in self._fields) > limits.MAX_SCOPE_WORK or any(
            CATALOGUE[definition.operation.op].compares for definition in ordered
        )

    def evaluate(self, document_text: str) -> Evaluation:
        """The values over one JSON text, such as `data::text`; another spelling of the document gives the same values.

        Raises InvalidDocument only for a text that jsonb could not hold.
        """
        if _oversized(document_text):
            return self._failed(errors.INPUT_TOO_LARGE, _raw_digest(document_text))
        try:
            document = decode(document_text)
        except errors.DocumentTooDeep:
            return self._failed(errors.EVALUATION_LIMIT_EXCEEDED, _raw_digest(document_text))
        values: dict[str, JsonValue] = {}
        codes: dict[str, str] = {}
        work = Meter()
        metered = self._metered
        output = SCALAR_BYTES * len(self._fields)
        for field in self._fields:
            value: JsonValue = None
            try:
                if metered:
                    work.begin(field.tokens)
                found = field.run(field.read(document), work)
                if field.check is not None and found is not None:
                    found, size = field.check(found)
                    output += size
                value = found
            except errors.FieldFailure as failure:
                codes[field.key] = failure.code
            values[field.key] = value
        if output > _SCOPE_SURELY_FITS and _size(values, codes) > MAX_SCOPE_OUTPUT_BYTES:
            return self._failed(errors.RESULT_TOO_LARGE, digest(document))
        return Evaluation(values, codes, digest(document))

    def _failed(self, code: str, document_digest: str) -> Evaluation:
        keys = [field.key for field in self._fields]
        return Evaluation(dict.fromkeys(keys), dict.fromkeys(keys, code), document_digest)


def document_digest(document_text: str) -> str:
    """What `evaluate` records for this text: SHA-256 of the canonical form, 64 hexadecimal digits.

    A document over 1 MiB or 200 levels is not decoded: its digest is that of the text itself.
    Raises InvalidDocument only for a text that jsonb could not hold.
    """
    if _oversized(document_text):
        return _raw_digest(document_text)
    try:
        return digest(decode(document_text))
    except errors.DocumentTooDeep:
        return _raw_digest(document_text)


def _compiled(definition: Definition) -> _Field:
    operation, result_type = definition.operation, definition.result_type
    rule = CATALOGUE[operation.op]
    paths = tuple(parse(path) for path in operation.paths)
    check: Callable[[JsonValue], tuple[JsonValue, int]] | None = None
    if rule.gives_any:
        check = partial(conforming, result_type)
    elif rule.gives_numbers and result_type == "integer":
        check = whole
    return _Field(definition.key, reader(paths), rule.run, check, sum(len(steps) for steps in paths))


def _oversized(text: str) -> bool:
    # A character takes at most four bytes, so most texts need not be encoded to know.
    if len(text) * 4 <= MAX_INPUT_BYTES:
        return False
    return len(text) > MAX_INPUT_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_INPUT_BYTES


def _raw_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _size(values: dict[str, JsonValue], codes: dict[str, str]) -> int:
    return len(canonical({"errors": {**codes}, "values": values}))
