"""Items of an activity and what they add up to, written by one statement: neither can be without the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.errors import UsageError, shortened
from tenure.model.faults import MESSAGE
from tenure.model.items import NAME, Item, change_named, pages

COLUMNS = (
    "change", "object_type", "object_id", "object_name", "error_code", "error_message", "unhandled", "snapshot", "outcomes",
)  # fmt: skip

# One order for everybody, so that two pages of one source wait for each other and do not deadlock.
_ADD_UP = """insert into activity_statistics as s (activity_id, source_id, change, nested, objects, errors, unhandled)
    select :activity_id, :source_id, change, nested, objects, errors, unhandled from (
        select change, false as nested, count(*) as objects, count(error_code) as errors,
               count(*) filter (where unhandled) as unhandled from i group by change
        union all select o #>> '{}', true, count(*), 0, 0 from i, jsonb_path_query(i.outcomes, 'strict $.**.outcome') o
               where i.outcomes is not null group by 1) added order by change, nested
    on conflict (activity_id, source_id, change, nested) do update set objects = s.objects + excluded.objects,
        errors = s.errors + excluded.errors, unhandled = s.unhandled + excluded.unhandled"""

_INSERT = text(f"""with
    i as (insert into activity_items (created_at, activity_id, source_id, change, object_type, object_id, object_name,
              error_code, error_message, unhandled, snapshot, outcomes)
          select at, :activity_id, :source_id, r.change, r.type, r.id, r.name, r.error, r.message,
              coalesce(r.unhandled, false), r.snapshot, r.outcomes
          from (select clock_timestamp() as at) now, json_to_recordset(cast(:rows as json)) as r(change text, type text, id text,
              name text, error text, message text, unhandled boolean, snapshot jsonb, outcomes jsonb)
          returning change, error_code, unhandled, outcomes),
    s as ({_ADD_UP})
    select count(*) from i""")

_COUNT = text("""insert into activity_statistics as s (activity_id, source_id, change, objects)
    select :activity_id, :source_id, key, value::bigint from json_each_text(cast(:counted as json)) order by key
    on conflict (activity_id, source_id, change, nested) do update set objects = s.objects + excluded.objects""")


@dataclass(frozen=True)
class Under:
    """Whose items they are: an activity's, left by a task, or by whoever has the activity in hand (then its own id)."""

    activity_id: UUID
    source_id: UUID


def insert(connection: Connection, under: Under, items: Iterable[Item]) -> int:
    """Write the items, a thousand to a statement; how many. Items are taken as they come: a generator is held a page long."""
    return sum(connection.execute(_INSERT, {**vars(under), "rows": page}).scalar_one() for page in pages(items))


def insert_from(
    connection: Connection, under: Under, columns: Sequence[str], select: str, values: Mapping[str, Any]
) -> int:
    """Write an item for each row of `select`, whose columns are those of `columns`, in that order; how many. Texts are cut
    to what an item may hold. UsageError for an unknown column, or without `change`."""
    if wrong := [name for name in columns if name not in COLUMNS]:
        raise UsageError(f"items have no column {shortened(wrong[0])!r}: they have {', '.join(COLUMNS)}")
    if "change" not in columns or len(set(columns)) != len(columns):
        raise UsageError("items need the column `change`, and each column once")
    statement = text(f"""with
        i as (insert into activity_items (created_at, activity_id, source_id, {", ".join(columns)})
              select statement_timestamp(), :activity_id, :source_id, {", ".join(map(_fitting, columns))}
              from ({select}) given({", ".join(columns)})
              returning change, error_code, unhandled, outcomes),
        s as ({_ADD_UP})
        select count(*) from i""")
    return int(connection.execute(statement, {**values, **vars(under)}).scalar_one())


def _fitting(column: str) -> str:
    if column in ("unhandled", "snapshot", "outcomes"):
        return column
    return f"left({column}::text, {MESSAGE if column == 'error_message' else NAME})"


def count(connection: Connection, under: Under, counted: Mapping[str, int]) -> None:
    """Objects without an item, by their change: they count as done. UsageError for a name or a number that cannot be."""
    if wrong := next((name for name, number in counted.items() if number < 0), None):
        raise UsageError(f"change {shortened(wrong)!r}: a number of objects is 0 or more")
    given = {change_named(name): number for name, number in counted.items() if number}
    if given:
        connection.execute(_COUNT, {**vars(under), "counted": json.dumps(given)})
