"""A task or an activity as somebody who follows it sees it, with the database's clock. One statement each, reads only."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.phases import in_order

_TIMES = ("started_at", "ended_at", "updated_at")


def _phases(activity: str, more: str = "") -> str:
    return f"""coalesce((select json_agg(json_build_object('task_id', p.task_id, 'path', p.path, 'status', p.status,
              'done', p.done, 'total', p.total, 'message', p.message, 'started_at', p.started_at, 'ended_at', p.ended_at,
              'updated_at', p.updated_at) order by p.task_id, p.position)
           from activity_phases p where p.activity_id = {activity}{more}), '[]')::text as phases"""


_TASK = text(f"""select k.id, k.kind, k.state, k.outcome, k.attempt, k.max_attempts, k.error_code, k.error_message,
       k.available_at, k.started_at, k.finished_at, l.token, c.total, c.processed, c.succeeded, c.failed,
       exists (select 1 from task_stops s where s.task_id = k.id) as stop_asked, k.activity_id,
       {_phases("k.activity_id", " and p.task_id = k.id")}, clock_timestamp() as at
  from tasks k left join task_leases l on l.task_id = k.id left join task_checkpoints c on c.task_id = k.id
 where k.id = :id""")

# Its task may be gone, or there may never have been one.
_ACTIVITY = text(f"""select a.id, a.id as activity_id, a.status, a.target_type, a.target_name, a.message, a.created_at,
       coalesce(a.executed_at, shared_start(a.id), k.started_at) as executed_at, a.ended_at,
       a.task_id, k.state as task_state, k.attempt, k.max_attempts, l.token, c.total, c.processed, c.succeeded, c.failed,
       {_phases("a.id")}, clock_timestamp() as at
  from activities a left join tasks k on k.id = a.task_id left join task_leases l on l.task_id = k.id
       left join task_checkpoints c on c.task_id = k.id
 where a.id = :id""")

_LISTED = text(f"select {_phases(':id')}")


def read(connection: Connection, task_id: UUID) -> dict[str, Any] | None:
    """The task now with its phases, or None when there is none of that id."""
    return _one(connection.execute(_TASK, {"id": task_id}).mappings().first())


def read_activity(connection: Connection, activity_id: UUID) -> dict[str, Any] | None:
    """The activity now with its phases and the counters of its task, or None when there is none of that id."""
    return _one(connection.execute(_ACTIVITY, {"id": activity_id}).mappings().first())


def phases(connection: Connection, activity_id: UUID) -> list[dict[str, Any]]:
    """The phases of an activity: those of each of its tasks together, each after what it is within."""
    return _parsed(connection.execute(_LISTED, {"id": activity_id}).scalar_one())


def _one(row: Any) -> dict[str, Any] | None:
    return None if row is None else {**row, "phases": _parsed(row["phases"])}


def _parsed(stored: str) -> list[dict[str, Any]]:
    """Phases as JSON text, by task and position, in the order in which they are shown."""
    by_task: dict[str, list[dict[str, Any]]] = {}
    for phase in json.loads(stored):
        for name in _TIMES:
            phase[name] = None if phase[name] is None else datetime.fromisoformat(phase[name])
        by_task.setdefault(phase["task_id"], []).append({**phase, "task_id": UUID(phase["task_id"])})
    return [of[index] for of in by_task.values() for index in in_order([one["path"] for one in of])]
