"""Phases as rows to be written, and what the table says of them."""

from typing import Any
from uuid import UUID

from sqlalchemy import text

from tenure.model.records import Claimed
from tenure.store import phases
from tests.support.databases import Database

_SEEN = text("select path, status from activity_phases where task_id = :t order by position")


def a_phase(position: int = 0, status: str = "running", path: str | None = None, **values: Any) -> dict[str, Any]:
    """One phase as `phases.write` takes it."""
    ago = 0.0 if status in ("running", "completed") else None
    ended = 0.0 if status == "completed" else None
    row = {"done": None, "total": None, "message": None, "started_ago": ago, "ended_ago": ended, **values}
    return {"position": position, "path": path or f"phase {position}", "status": status, **row}


def declare(database: Database, claimed: Claimed, *statuses: str) -> bool:
    """Write phases of these statuses, as an attempt's first write."""
    rows = [a_phase(position, status) for position, status in enumerate(statuses)]
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        return phases.write(connection, claimed.lease, claimed.activity_id, rows, anew=True)


def seen(database: Database, task_id: UUID) -> list[tuple[str, str]]:
    """(path, status) of the phases of a task, in order."""
    with database.engine.connect() as connection:
        return [(row[0], row[1]) for row in connection.execute(_SEEN, {"t": task_id})]


def statuses(database: Database, task_id: UUID) -> list[str]:
    return [status for _, status in seen(database, task_id)]
