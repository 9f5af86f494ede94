"""A page of retention: so many rows are looked at in order, what may go is deleted (or counted), the rest is passed over.

What is looked at is bounded, not what is deleted: rows that are kept would else be walked over in one statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, TextClause, text


class After(NamedTuple):
    """Where a walk has got to: (time as PostgreSQL writes it, id)."""

    at: str = "-infinity"
    id: UUID = UUID(int=0)


@dataclass(frozen=True)
class Page:
    """`seen` rows were looked at, `gone` of them deleted, or counted in a dry run. `held`: the earliest time of one that
    is kept though it is old, as PostgreSQL writes it."""

    seen: int
    gone: int
    after: After
    held: str | None


def statement(table: str, time: str, purgeable: str, *, dry_run: bool, also: str = "") -> TextClause:
    """One page over `table` (alias t) by (time, id): rows older than :before that are `purgeable`.

    `also`: CTEs that follow from `free`, the ids about to go. What somebody holds is left for the next run. Rows are found
    again by their place: partitions have no index on id alone, and the planner is given no choice.
    """
    locking = "" if dry_run else "for update of t skip locked"
    gone = f"gone as (delete from {table} t where t.ctid = any(array(select place from free)) returning 1)"
    deleting = "" if dry_run else f", {also + ',' if also else ''} {gone}"
    return text(f"""with
    page as materialized (select t.ctid as place, t.id, t.{time} as at from {table} t
        where t.{time} < cast(:before as timestamptz) and (t.{time}, t.id) > (cast(:at as timestamptz), cast(:id as uuid))
        order by t.{time}, t.id limit :rows),
    free as materialized (select t.ctid as place, t.id from {table} t where t.ctid = any(array(select place from page))
        and {purgeable} {locking}){deleting}
    select (select count(*) from page), (select count(*) from {"free" if dry_run else "gone"}), p.at::text, p.id,
        (select min(k.at)::text from page k where k.place not in (select place from free))
    from page p order by p.at desc, p.id desc limit 1""")


def run(connection: Connection, page: TextClause, after: After, rows: int, **values: Any) -> Page | None:
    """Execute one page; None when there is nothing more to look at."""
    row: Sequence[Any] | None = connection.execute(
        page, {"at": after.at, "id": after.id, "rows": rows, **values}
    ).first()
    return None if row is None else Page(row[0], row[1], After(row[2], row[3]), row[4])
