"""Whether a stored value may be shown: it was computed by the definitions of now from the data of now, and is undamaged.

Stale is what is missing, or was computed by other definitions or from other data. Corrupt is what claims to be fresh
while its seal or its form says otherwise, or claims to be of data or definitions that are yet to come. Either is evaluated on the spot, so a reader gets the right value anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row

from tenure_records import values
from tenure_records.computed import Evaluation, InvalidDocument, JsonValue, decode, document_digest
from tenure_records.scope import Scope

# What `judge` needs beside the object's `data` (as text) and `change_seq`, from `o` the object, `c` its stored values
# and `s` the state of the class.
COLUMNS = """s.evaluation_revision as wanted, c.evaluation_revision as found, c.change_seq as judged,
    encode(c.source_digest, 'hex') as seal, c.values::text as values, c.errors::text as errors"""


@dataclass(frozen=True, slots=True)
class Computed:
    """The computed fields of one object. `stale`: they were evaluated for this read; right all the same."""

    values: dict[str, JsonValue]
    errors: dict[str, str]
    stale: bool


class Kind(StrEnum):
    FRESH = "fresh"
    STALE = "stale"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class Judged:
    """What to show, how the stored values were found, and for all but fresh ones what to store instead.

    `impossible`: they claim data or definitions that are yet to come, so no write that goes only forward replaces them.
    """

    shown: Computed
    kind: Kind
    evaluation: Evaluation | None = None
    impossible: bool = False


def judge(row: Row[Any], now: Scope) -> Judged:
    """The computed values of one object; `now` are the definitions of the same snapshot as the row."""
    if now.empty:
        return Judged(Computed({}, {}, stale=False), Kind.FRESH)
    claims = row.found == row.wanted and row.judged == row.change_seq
    if claims and (stored := _undamaged(row, now)) is not None:
        return Judged(Computed(*stored, stale=False), Kind.FRESH)
    impossible = row.found is not None and (row.found > row.wanted or row.judged > row.change_seq)
    kind = Kind.CORRUPT if claims or impossible else Kind.STALE
    evaluated = now.evaluator.evaluate(row.data)
    return Judged(Computed(evaluated.values, evaluated.errors, stale=True), kind, evaluated, impossible)


def _undamaged(row: Row[Any], now: Scope) -> tuple[dict[str, JsonValue], dict[str, str]] | None:
    try:
        stored, errors = decode(row.values), decode(row.errors)
    except InvalidDocument:
        return None
    if not (isinstance(stored, dict) and isinstance(errors, dict) and now.fits(stored, errors)):
        return None
    codes = {key: str(code) for key, code in errors.items()}
    return (stored, codes) if values.seal(document_digest(row.data), stored, codes) == row.seal else None
