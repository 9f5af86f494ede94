"""One task as somebody who follows it sees it: state, counters, token, and the database's clock. One statement, reads only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

_READ = text("""select k.id, k.kind, k.state, k.outcome, k.attempt, k.max_attempts, k.error_code, k.error_message,
       k.available_at, k.started_at, k.finished_at, l.token, c.total, c.processed, c.succeeded, c.failed,
       exists (select 1 from task_stops s where s.task_id = k.id) as stop_asked, clock_timestamp() as at
  from tasks k left join task_leases l on l.task_id = k.id left join task_checkpoints c on c.task_id = k.id
 where k.id = :id""")


def read(connection: Connection, task_id: UUID) -> dict[str, Any] | None:
    """The task now, or None when there is none of that id."""
    row = connection.execute(_READ, {"id": task_id}).mappings().first()
    return None if row is None else dict(row)
