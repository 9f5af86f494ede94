"""Ended tasks. Params, result and checkpoint go with them; activity, events and attempts have ages of their own."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from sqlalchemy import Connection, TextClause

from tenure.store.retention import pages
from tenure.store.retention.pages import After, Page

# OFFSET 0 keeps each a look at an index, row by row: the planner would else read a whole table once instead, whenever it
# has old statistics. COALESCE: no index on the time, which would be walked in place of the rows at hand.
# Kept though it is old: what a retry that has not ended goes back to; a member of an execution that goes on (its
# failure counts there); one of several tasks of an activity that goes on (how they ended decides how it ends). Nothing
# that a run deletes changes any of these, so the order within a run does not matter.
_HELD = """
    exists (select 1 from tasks r where r.retry_of = {t}.id and r.finished_at is null offset 0)
    or exists (select 1 from executions x where x.id = {t}.execution_id and x.finished_at is null offset 0)
    or exists (select 1 from activities a where a.id = {t}.activity_id and a.status = 'in_progress' offset 0)"""

# In the statement that deletes: no moment is between the two in which its message would be taken for a new one.
_TOMBSTONES = """stones as (insert into adopted_ids (id) select k.id from tasks k
    where k.id = any(array(select id from free)) and k.adopted on conflict (id) do nothing)"""


def purgeable(alias: str, before: str, holds: tuple[str, ...] = ()) -> str:
    """SQL: the task `alias` may go. `holds`: conditions of domains on the task {t}, any of which keeps it."""
    held = " or ".join(condition.format(t=alias) for condition in (_HELD, *holds))
    return f"coalesce({alias}.finished_at < cast({before} as timestamptz), false) and not ({held})"


@lru_cache
def _page(dry_run: bool, holds: tuple[str, ...]) -> TextClause:
    return pages.statement("tasks", "finished_at", purgeable("t", ":before", holds), dry_run=dry_run, also=_TOMBSTONES)


def page(
    connection: Connection, before: datetime, after: After, rows: int, *, dry_run: bool, holds: tuple[str, ...] = ()
) -> Page | None:
    """Delete (in a dry run: count) what may go of the next `rows` tasks that ended before `before`."""
    return pages.run(connection, _page(dry_run, holds), after, rows, before=before)
