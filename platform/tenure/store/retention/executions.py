"""Ended executions of schedules, once none of their tasks is kept."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from sqlalchemy import Connection, TextClause

from tenure.store.retention import pages, tasks
from tenure.store.retention.pages import After, Page


@lru_cache
def _page(dry_run: bool, holds: tuple[str, ...]) -> TextClause:
    kept = f"""not exists (select 1 from tasks k where k.execution_id = t.id
        and not ({tasks.purgeable("k", ":tasks", holds)}) offset 0)"""
    return pages.statement(
        "executions", "finished_at", f"coalesce(t.finished_at < :before, false) and {kept}", dry_run=dry_run
    )


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
    """Delete (in a dry run: count) what may go of the next `rows` executions that ended before `before`."""
    return pages.run(connection, _page(dry_run, holds), after, rows, before=before, tasks=tasks)
