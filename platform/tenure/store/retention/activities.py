"""Ended activities, never before their task; phases and statistics go with them. Their items are history, by month."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from sqlalchemy import Connection, TextClause

from tenure.store.retention import pages, tasks
from tenure.store.retention.pages import After, Page


def purgeable(alias: str, before: str, tasks_before: str, holds: tuple[str, ...] = ()) -> str:
    """SQL: the activity `alias` may go: it has ended, no task in it is kept, no child of it goes on."""
    kept = f"not ({tasks.purgeable('k', tasks_before, holds)})"
    return f"""coalesce({alias}.ended_at < cast({before} as timestamptz), false)
        and not exists (select 1 from tasks k where k.id = {alias}.task_id and {kept} offset 0)
        and not exists (select 1 from tasks k where k.activity_id = {alias}.id and k.activity_id <> k.id and {kept} offset 0)
        and not exists (select 1 from activities c where c.parent_id = {alias}.id and c.status = 'in_progress' offset 0)"""


@lru_cache
def _page(dry_run: bool, holds: tuple[str, ...]) -> TextClause:
    # By creation: there is no index on the end, and nothing ended before it was made.
    return pages.statement("activities", "created_at", purgeable("t", ":before", ":tasks", holds), dry_run=dry_run)


def page(
    connection: Connection,
    before: datetime,
    after: After,
    rows: int,
    *,
    tasks: datetime,
    dry_run: bool,
    holds: tuple[str, ...] = (),
) -> Page | None:
    """Delete (in a dry run: count) what may go of the next `rows` activities made before `before`.

    `held` of the answer: when the first of those was made that are kept."""
    return pages.run(connection, _page(dry_run, holds), after, rows, before=before, tasks=tasks)
