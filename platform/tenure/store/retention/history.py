"""History by month: partitions older than the cut-off go whole, first detached beside everybody else, then dropped.

Deleting their rows one by one would cost as much as writing them did. Where the age is below a month, or something of an
old month is still needed, rows are deleted after all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, TextClause, text

from tenure.store.retention import activities, pages
from tenure.store.retention.pages import After, Page

PARENTS: Final = ("task_events", "task_attempts", "activity_items")
# What retention is about to drop carries this mark. A partition that somebody detached to keep it does not.
MARK: Final = "tenure: retention drops this table"

_PARTITIONS = text("""select c.relname, i.inhdetachpending,
        (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''([^'']+)''\\)'))[1]::timestamptz,
        (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \\(''([^'']+)''\\)'))[1]::timestamptz
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass(:parent) and not i.inhdetachpending order by 3""")
_MARKED = text("""select c.relname, coalesce(i.inhdetachpending, false) from pg_class c
    left join pg_inherits i on i.inhrelid = c.oid
    where c.relkind = 'r' and c.relnamespace = (select relnamespace from pg_class where oid = to_regclass(:parent))
      and c.relname ~ ('^' || :parent || '_[0-9]{6}$') and obj_description(c.oid, 'pg_class') = :mark
      and (i.inhrelid is null or i.inhdetachpending) order by 1""")
# Housekeeping makes the month before this one again and again: rows of it may still come.
_LAST_MADE = text("select date_trunc('month', clock_timestamp(), 'UTC') - interval '1 month'")
# An attempt is written when it ends, under the time at which it began: its month must be there.
_BEGAN = text("select min(acquired) from task_leases")
_BLOCKS = text("select pg_relation_size(to_regclass(:name)) / current_setting('block_size')::bigint")
_COUNT = "select count(*) from {0} where ctid >= cast(:low as tid) and ctid < cast(:high as tid)"


@dataclass(frozen=True)
class Partition:
    """One attached month, from `low` to below `high`."""

    name: str
    low: datetime
    high: datetime


@dataclass(frozen=True)
class Marked:
    """A partition on its way out. `pending`: its detaching was begun and has to be finished."""

    name: str
    pending: bool


def partitions(connection: Connection, parent: str) -> list[Partition]:
    """The attached months, oldest first."""
    rows = connection.execute(_PARTITIONS, {"parent": parent})
    return [Partition(name, low, high) for name, _, low, high in rows]


def marked(connection: Connection, parent: str) -> list[Marked]:
    """What an earlier run, or this one, has begun to drop, oldest first."""
    return [Marked(*row) for row in connection.execute(_MARKED, {"parent": parent, "mark": MARK})]


def droppable_before(connection: Connection, parent: str, before: datetime) -> datetime:
    """Partitions that end by then may go whole: nobody writes or needs anything of them."""
    limits: list[datetime] = [before, connection.execute(_LAST_MADE).scalar_one()]
    if parent == "task_attempts" and (began := connection.execute(_BEGAN).scalar_one()) is not None:
        limits.append(began)
    return min(limits)


def mark(connection: Connection, name: str) -> None:
    """Say that a partition is about to go. For a connection in AUTOCOMMIT."""
    connection.execute(text(f"comment on table {name} is '{MARK}'"))


def detach(connection: Connection, parent: str, name: str) -> None:
    """Take a partition out beside readers and writers. In AUTOCOMMIT only; what is cut off half way is `pending`.

    Raises OperationalError when an open transaction is in the way for longer than lock_timeout."""
    connection.execute(text(f"alter table {parent} detach partition {name} concurrently"))


def finish_detaching(connection: Connection, parent: str, name: str) -> None:
    """Finish what was cut off half way. Raises as `detach` does."""
    connection.execute(text(f"alter table {parent} detach partition {name} finalize"))


def blocks(connection: Connection, name: str) -> int:
    """How many blocks a table has; 0 for one that is gone."""
    return int(connection.execute(_BLOCKS, {"name": name}).scalar() or 0)


def count(connection: Connection, name: str, low: int, high: int) -> int:
    """The rows in the blocks from `low` to below `high`."""
    here = {"low": f"({low},0)", "high": f"({high},0)"}
    return int(connection.execute(text(_COUNT.format(name)), here).scalar_one())


def drop(connection: Connection, name: str) -> bool:
    """Drop a detached partition in the caller's transaction. False: another run has done it."""
    if connection.execute(text("select to_regclass(:name) is null"), {"name": name}).scalar_one():
        return False
    connection.execute(text(f"drop table {name}"))
    return True


@lru_cache(maxsize=64)
def _page(parent: str, name: str, dry_run: bool, holds: tuple[str, ...]) -> TextClause:
    kept = f"""not exists (select 1 from activities a where a.id = t.activity_id
        and not ({activities.purgeable("a", ":before", ":tasks", holds)}) offset 0)"""
    return pages.statement(name, "created_at", kept if parent == "activity_items" else "true", dry_run=dry_run)


def page(
    connection: Connection,
    parent: str,
    name: str,
    before: datetime,
    after: After,
    rows: int,
    *,
    tasks: datetime | None,
    dry_run: bool,
    holds: tuple[str, ...] = (),
) -> Page | None:
    """Delete (in a dry run: count) what may go of the next `rows` rows older than `before` of one partition. An item of an
    activity stays as long as that does."""
    values: dict[str, Any] = {"before": before} | ({"tasks": tasks} if parent == "activity_items" else {})
    return pages.run(connection, _page(parent, name, dry_run, holds), after, rows, **values)
