"""Items of an activity and what they add up to, written together: neither can be without the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.errors import UsageError, shortened
from tenure.model.faults import MESSAGE
from tenure.model.items import NAME, Item, Page, change_named, pages
from tenure.store.copying import copy

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

_SUM = text("""insert into activity_statistics as s (activity_id, source_id, change, nested, objects, errors, unhandled)
    select :activity_id, :source_id, r.change, r.nested, r.objects, r.errors, r.unhandled
    from json_to_recordset(cast(:rows as json)) as r(change text, nested boolean, objects bigint, errors bigint, unhandled bigint)
    order by r.change, r.nested
    on conflict (activity_id, source_id, change, nested) do update set objects = s.objects + excluded.objects,
        errors = s.errors + excluded.errors, unhandled = s.unhandled + excluded.unhandled
    returning clock_timestamp()""")
_COPY = """copy activity_items (id, change, object_type, object_id, object_name, error_code, error_message, unhandled,
    snapshot, outcomes, activity_id, source_id, created_at) from stdin"""

_COUNT = text("""insert into activity_statistics as s (activity_id, source_id, change, objects)
    select :activity_id, :source_id, key, value::bigint from json_each_text(cast(:counted as json)) order by key
    on conflict (activity_id, source_id, change, nested) do update set objects = s.objects + excluded.objects""")


@dataclass(frozen=True)
class Under:
    """Whose items they are: an activity's, left by a task, or by whoever has the activity in hand (then its own id)."""

    activity_id: UUID
    source_id: UUID


def insert(connection: Connection, under: Under, items: Iterable[Item]) -> int:
    """Write the items, a thousand at a time; how many. Items are taken as they come: a generator is held a page long."""
    return sum(_write(connection, under, page) for page in pages(items))


def _write(connection: Connection, under: Under, page: Page) -> int:
    """The sums first: they answer the database's time. Whatever fails takes both with it, in the caller's transaction."""
    rows = [{"change": change, "nested": False, **vars(found)} for change, found in page.changes.items()]
    rows += [
        {"change": name, "nested": True, "objects": number, "errors": 0, "unhandled": 0}
        for name, number in page.outcomes.items()
    ]
    now = connection.execute(_SUM, {**vars(under), "rows": json.dumps(rows)}).first()
    rest = f"\t{under.activity_id}\t{under.source_id}\t{now[0] if now else None}\n"
    copy(connection, _COPY, rest.join([*page.lines, ""]))
    return len(page.lines)


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
