"""Reading objects with computed values that are always right.

A stored value counts only if it was computed by the definitions of now from the data of now; else it is evaluated on
the spot, flagged, and repaired where that costs nobody anything.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, text
from sqlalchemy.exc import DBAPIError

from tenure.model.errors import UsageError, shortened
from tenure.model.records import Initiator
from tenure_records import classes, freshness, locks, scope, values
from tenure_records.computed import JsonValue, decode
from tenure_records.errors import NoSuchObject
from tenure_records.freshness import Computed, Judged, Kind, judge
from tenure_records.personal import is_person

MOST: Final = 10_000
_LOG: Final = logging.getLogger("tenure.records")

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
        as definitions, s.rebuild_status, {freshness.COLUMNS}""",
    """join class_computation_state s on s.class_id = o.class_id
    left join object_computed_data c on c.class_id = o.class_id and c.object_id = o.id""",
)
_BY_KEYS = "and o.key = any(:keys) order by o.id"
_AFTER = "and o.id > :after order by o.id"


@dataclass(frozen=True)
class Object:
    """One object; numbers in `data` are int or Decimal, exact.

    `computed` and `personal` (one person's own fields) are None when they were not asked for.
    """

    id: int
    key: str
    revision: int
    change_seq: int
    created_at: datetime
    updated_at: datetime
    data: dict[str, JsonValue]
    computed: Computed | None = None
    personal: Computed | None = None


def get_object(
    connection: Connection,
    class_name: str,
    key: str,
    *,
    include_computed: bool = False,
    personal: Initiator | None = None,
    repair: bool = True,
) -> Object:
    """One object by key. Raises NoSuchClass, NoSuchObject."""
    found = get_objects(
        connection, class_name, keys=[key], include_computed=include_computed, personal=personal, repair=repair
    )
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
    personal: Initiator | None = None,
    repair: bool = True,
) -> list[Object]:
    """Objects by id: those with these keys (missing ones are left out), or the next `limit` after an id.

    `personal` adds the fields of this person, who must be the reader; a service has none. `repair` lets the read store
    what it found stale, in the caller's transaction. Raises NoSuchClass.
    """
    count = limit if keys is None else len(keys)
    if not 0 <= count <= MOST:
        raise UsageError(f"{count} objects asked for: at most {MOST} at a time")
    class_id = classes.class_id(connection, class_name)
    statement = _PAGE.format(_AFTER if keys is None else _BY_KEYS, *(_COMPUTED if include_computed else _PLAIN))
    here = {"class_id": class_id, "limit": count, "after": after, "keys": list(keys or ())}
    own = own_fields(connection, class_id, personal)
    rows = connection.execute(text(statement), here).all()
    if not rows or not include_computed:
        return [as_object(row, None, own) for row in rows]
    now = scope.scope(class_id, rows[0].wanted, rows[0].definitions)
    read = [(row, judge(row, now)) for row in rows]
    spoiled = [(row, found) for row, found in read if found.kind is not Kind.FRESH]
    # While a rebuild runs it will come to what is stale; what is corrupt it may take for its own finished work.
    if rows[0].rebuild_status == "rebuilding":
        spoiled = [(row, found) for row, found in spoiled if found.kind is Kind.CORRUPT]
    if spoiled and repair:
        _repair(connection, now, spoiled)
    return [as_object(row, found.shown, own) for row, found in read]


def own_fields(connection: Connection, class_id: int, who: Initiator | None) -> scope.Scope | None:
    """The scope of a person's own fields; None for a service, or for nobody."""
    return None if who is None or not is_person(who) else scope.personal(connection, class_id, who.id)


def as_object(row: Row[Any], computed: Computed | None, own: scope.Scope | None = None) -> Object:
    """The object of a row that has its columns, `data` as text; a person's own fields are evaluated here."""
    mine = None if own is None else own.evaluator.evaluate(row.data)
    personal = None if mine is None else Computed(mine.values, mine.errors, stale=False)
    data = decode(row.data)
    assert isinstance(data, dict), "a check constraint lets only objects in"
    return Object(
        row.id, row.key, row.revision, row.change_seq, row.created_at, row.updated_at, data, computed, personal
    )


def _repair(connection: Connection, now: scope.Scope, spoiled: list[tuple[Row[Any], Judged]]) -> None:
    """Store what was evaluated, unless somebody is in the way or the caller may not write: a read never fails for it."""
    written = 0
    try:
        with connection.begin_nested():
            written = _stored(connection, now, spoiled)
    except DBAPIError:
        pass  # a read-only transaction, a standby, a lock timeout: the next read or rebuild repairs it
    corrupt = sum(1 for _, one in spoiled if one.kind is Kind.CORRUPT)
    _LOG.log(
        logging.WARNING if corrupt else logging.INFO,
        "computed values of class %d found out of date: %d stale, %d corrupt, %d repaired",
        now.class_id, len(spoiled) - corrupt, corrupt, written,
    )  # fmt: skip


def _stored(connection: Connection, now: scope.Scope, spoiled: list[tuple[Row[Any], Judged]]) -> int:
    """How many values were written; 0 when the definitions have changed since they were read, or are about to."""
    if not locks.try_share(connection, now.class_id):
        return 0
    if scope.current(connection, now.class_id).revision != now.revision:
        return 0
    values.evict(connection, now.class_id, [(row.id, row.judged, row.found) for row, one in spoiled if one.impossible])
    fresh = [values.Value(row.id, row.change_seq, one.evaluation) for row, one in spoiled if one.evaluation is not None]
    return values.repair(connection, now.class_id, now.revision, fresh)
