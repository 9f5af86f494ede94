"""Reading objects with computed values that are always right.

A stored value counts only if it was computed by the definitions of now from the data of now; else it is evaluated on
the spot, flagged, and repaired where that costs nobody anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, text
from sqlalchemy.exc import DBAPIError

from tenure.model.errors import UsageError, shortened
from tenure_records import classes, locks, scope, values
from tenure_records.computed import Evaluation, JsonValue, decode, document_digest
from tenure_records.errors import NoSuchObject

MOST: Final = 10_000

# One statement, so that data, values, definitions and revision are of one snapshot. The definitions go with the first
# row only: a page would carry them a thousand times.
_PAGE = """with page as materialized (
        select o.class_id, o.id, o.key, o.revision, o.change_seq, o.created_at, o.updated_at, o.data
        from record_objects o where o.class_id = :class_id {0} limit :limit)
    select o.id, o.key, o.revision, o.change_seq, o.created_at, o.updated_at, o.data::text as data, {1}
    from page o {2} order by o.id"""
_PLAIN = ("null as definitions", "")
_COMPUTED = (
    f"""case when row_number() over (order by o.id) = 1 then {scope.DEFINITIONS.format(class_id=":class_id")} end
        as definitions, s.evaluation_revision as wanted, s.rebuild_status, c.evaluation_revision as found,
        c.change_seq as judged, encode(c.source_digest, 'hex') as digest, c.values::text as values, c.errors as errors""",
    """join class_computation_state s on s.class_id = o.class_id
    left join object_computed_data c on c.class_id = o.class_id and c.object_id = o.id""",
)
_BY_KEYS = "and o.key = any(:keys) order by o.id"
_AFTER = "and o.id > :after order by o.id"


@dataclass(frozen=True)
class Computed:
    """The computed fields of one object. `stale`: they were evaluated for this read; right all the same."""

    values: dict[str, JsonValue]
    errors: dict[str, str]
    stale: bool


@dataclass(frozen=True)
class Object:
    """One object; numbers in `data` are int or Decimal, exact. `computed` is None when it was not asked for."""

    id: int
    key: str
    revision: int
    change_seq: int
    created_at: datetime
    updated_at: datetime
    data: dict[str, JsonValue]
    computed: Computed | None = None


def get_object(
    connection: Connection, class_name: str, key: str, *, include_computed: bool = False, repair: bool = True
) -> Object:
    """One object by key. Raises NoSuchClass, NoSuchObject."""
    found = get_objects(connection, class_name, keys=[key], include_computed=include_computed, repair=repair)
    if not found:
        raise NoSuchObject(f"no object {shortened(key)!r} in class {shortened(class_name)!r}")
    return found[0]


def get_objects(
    connection: Connection,
    class_name: str,
    *,
    keys: Sequence[str] | None = None,
    after: int = 0,
    limit: int = 100,
    include_computed: bool = False,
    repair: bool = True,
) -> list[Object]:
    """Objects by id: those with these keys (missing ones are left out), or the next `limit` after an id.

    `repair` lets the read store what it found stale, in the caller's transaction. Raises NoSuchClass.
    """
    count = limit if keys is None else len(keys)
    if not 0 <= count <= MOST:
        raise UsageError(f"{count} objects asked for: at most {MOST} at a time")
    class_id = classes.class_id(connection, class_name)
    statement = _PAGE.format(_AFTER if keys is None else _BY_KEYS, *(_COMPUTED if include_computed else _PLAIN))
    here = {"class_id": class_id, "limit": count, "after": after, "keys": list(keys or ())}
    rows = connection.execute(text(statement), here).all()
    if not rows or not include_computed:
        return [_object(row, None) for row in rows]
    now = scope.scope(class_id, rows[0].wanted, rows[0].definitions)
    read = [(row, _computed(row, now)) for row in rows]
    # While a rebuild runs, it will come to them; and a value nobody can be shown is not worth a write.
    if repair and rows[0].rebuild_status != "rebuilding" and not now.empty:
        _repair(connection, now, [(row, found) for row, (shown, found) in read if shown.stale and found is not None])
    return [_object(row, shown) for row, (shown, _) in read]


def _object(row: Row[Any], computed: Computed | None) -> Object:
    data = decode(row.data)
    assert isinstance(data, dict), "a check constraint lets only objects in"
    return Object(row.id, row.key, row.revision, row.change_seq, row.created_at, row.updated_at, data, computed)


def _computed(row: Row[Any], now: scope.Scope) -> tuple[Computed, Evaluation | None]:
    if now.empty:
        return Computed({}, {}, stale=False), None
    if row.found == row.wanted and row.judged == row.change_seq and row.digest == document_digest(row.data):
        stored = decode(row.values)
        if isinstance(stored, dict) and now.fits(stored, row.errors):
            return Computed(stored, row.errors, stale=False), None
    found = now.evaluator.evaluate(row.data)
    return Computed(found.values, found.errors, stale=True), found


def _repair(connection: Connection, now: scope.Scope, stale: list[tuple[Row[Any], Evaluation]]) -> None:
    """Store what was evaluated, unless somebody is in the way or the caller may not write: a read never fails for it."""
    if not stale:
        return
    try:
        with connection.begin_nested():
            if not locks.try_share(connection, now.class_id):
                return
            if scope.current(connection, now.class_id).revision != now.revision:
                return
            fresh = [values.Value(row.id, row.change_seq, found) for row, found in stale]
            values.repair(connection, now.class_id, now.revision, fresh)
    except DBAPIError:
        # A read-only transaction, a standby, a lock timeout: the next read or rebuild repairs it.
        return
