"""What is known of tasks: list and one whole. Reads only; nothing here changes a row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, func, select
from sqlalchemy.sql.elements import ColumnElement

from tenure.store.tables import (
    task_attempts,
    task_checkpoints,
    task_events,
    task_leases,
    task_params,
    task_results,
    task_stops,
    tasks,
)

Row = dict[str, Any]


def _rows(connection: Connection, statement: Any) -> list[Row]:
    return [dict(r) for r in connection.execute(statement).mappings()]


def listing(
    connection: Connection,
    *,
    kind: str | None = None,
    states: Sequence[str] = (),
    submitter: str | None = None,
    labels: dict[str, str] | None = None,
    execution: UUID | None = None,
    before: UUID | None = None,
    limit: int = 100,
) -> list[Row]:
    """Tasks, newest first (ids rise with time), at most `limit`; `before` continues a listing."""
    wanted: list[ColumnElement[bool]] = []
    if kind is not None:
        wanted.append(tasks.c.kind == kind)
    if states:
        wanted.append(tasks.c.state.in_(list(states)))
    if submitter is not None:
        wanted.append(tasks.c.submitter == submitter)
    if execution is not None:
        wanted.append(tasks.c.execution_id == execution)
    if labels:
        wanted.append(tasks.c.labels.contains(labels))
    if before is not None:
        wanted.append(tasks.c.id < before)
    return _rows(connection, select(tasks).where(*wanted).order_by(tasks.c.id.desc()).limit(limit))


def one(connection: Connection, task_id: UUID) -> Row | None:
    """The task row, or None."""
    found = _rows(connection, select(tasks).where(tasks.c.id == task_id))
    return found[0] if found else None


def from_now(connection: Connection, delay: timedelta) -> datetime:
    """The moment that far from now, by the database's clock."""
    moment: datetime = connection.execute(select(func.clock_timestamp() + delay)).scalar_one()
    return moment


def glance(connection: Connection, task_id: UUID) -> Row | None:
    """What somebody who waits for a task wants to know, in one statement: state, error, counters, result."""
    statement = (
        select(
            *(tasks.c[n] for n in ("id", "kind", "queue", "state", "outcome", "attempt", "summary", "finished_at")),
            *(tasks.c[n] for n in ("error_code", "error_message")),
            *(task_checkpoints.c[n] for n in ("total", "processed", "succeeded", "failed")),
            task_results.c.result,
        )
        .outerjoin(task_checkpoints, task_checkpoints.c.task_id == tasks.c.id)
        .outerjoin(task_results, task_results.c.task_id == tasks.c.id)
        .where(tasks.c.id == task_id)
    )
    found = _rows(connection, statement)
    return found[0] if found else None


def checkpoint(connection: Connection, task_id: UUID) -> Row | None:
    found = _rows(connection, select(task_checkpoints).where(task_checkpoints.c.task_id == task_id))
    return found[0] if found else None


def lease(connection: Connection, task_id: UUID) -> Row | None:
    left = func.extract("epoch", task_leases.c.expires - func.clock_timestamp()).label("seconds_left")
    found = _rows(connection, select(task_leases, left).where(task_leases.c.task_id == task_id))
    return found[0] if found else None


def params(connection: Connection, task_id: UUID) -> tuple[Any, int] | None:
    """(params as stored, their version), or None once they are redacted."""
    columns = (task_params.c.params, task_params.c.params_version)
    row = connection.execute(select(*columns).where(task_params.c.task_id == task_id)).first()
    return None if row is None else (row[0], row[1])


def result(connection: Connection, task_id: UUID) -> Any:
    return connection.execute(select(task_results.c.result).where(task_results.c.task_id == task_id)).scalar()


def history(connection: Connection, task_id: UUID) -> list[Row]:
    e = task_events.c
    statement = select(e.created_at, e.verb, e.state, e.token, e.note).where(e.task_id == task_id)
    return _rows(connection, statement.order_by(e.created_at, e.id))


def attempts(connection: Connection, task_id: UUID) -> list[Row]:
    """Ended attempts, oldest first; the running one is in `lease`."""
    a = task_attempts.c
    columns = (
        a.created_at,
        a.ended_at,
        a.attempt,
        a.token,
        a.worker,
        a.pid,
        a.how,
        a.error_code,
        a.error_message,
        a.forced,
    )
    return _rows(connection, select(*columns).where(a.task_id == task_id).order_by(a.created_at, a.id))


def stops(connection: Connection, task_id: UUID) -> list[Row]:
    s = task_stops.c
    statement = select(s.created_at, s.asked_by, s.reason).where(s.task_id == task_id)
    return _rows(connection, statement.order_by(s.id))
