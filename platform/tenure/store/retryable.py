"""Ended tasks that nobody has retried yet. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, exists, select

from tenure.store.tables import tasks


def ids(connection: Connection, *, kind: str | None, states: Sequence[str], limit: int) -> list[UUID]:
    """Their ids, newest first, at most `limit`."""
    again = tasks.alias("again")
    statement = select(tasks.c.id).where(
        tasks.c.state.in_(list(states)), ~exists().where(again.c.retry_of == tasks.c.id)
    )
    if kind is not None:
        statement = statement.where(tasks.c.kind == kind)
    return list(connection.execute(statement.order_by(tasks.c.id.desc()).limit(limit)).scalars())
