"""Ids of purged tasks that came as messages: known for longer than a broker may deliver a message again."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from sqlalchemy import Connection, TextClause

from tenure.store.retention import pages
from tenure.store.retention.pages import After, Page


@lru_cache
def _page(dry_run: bool) -> TextClause:
    return pages.statement("adopted_ids", "created_at", "true", dry_run=dry_run)


def page(connection: Connection, before: datetime, after: After, rows: int, *, dry_run: bool) -> Page | None:
    """Delete (in a dry run: count) the next `rows` tombstones older than `before`."""
    return pages.run(connection, _page(dry_run), after, rows, before=before)
