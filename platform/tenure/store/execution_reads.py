"""What is known of executions and their tasks. Reads only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

_COLUMNS = """x.id as execution_id, x.schedule_name, x.due_at, x.trigger, x.state, x.reason, x.group_index,
    jsonb_array_length(x.plan) as groups, x.initiator_type || ':' || x.initiator_name as initiator, x.cancel_asked_by,
    x.created_at, x.started_at, x.finished_at"""
# In the order of the plan; a task that retention has taken is known by its activity.
_TASKS = """(select coalesce(json_agg(json_build_object('id', p.step ->> 'task_id', 'group', p.at - 1, 'kind', p.step ->> 'kind',
        'on_failure', p.step ->> 'on_failure', 'state', coalesce(k.state, a.status), 'outcome', k.outcome,
        'error', k.error_message) order by p.at, p.beside), '[]')
    from (select g.at, s.step, s.beside from jsonb_array_elements(x.plan) with ordinality g(steps, at),
              jsonb_array_elements(g.steps) with ordinality s(step, beside)) p
    left join tasks k on k.id = cast(p.step ->> 'task_id' as uuid)
    left join activities a on k.id is null and a.id = cast(p.step ->> 'task_id' as uuid)) as tasks"""
_OF_SCHEDULE = text(f"""select {_COLUMNS}, {_TASKS} from executions x where x.schedule_id = :id
    order by x.due_at desc, x.id desc limit :limit""")
_ONE = text(f"select {_COLUMNS}, {_TASKS} from executions x where x.id = :id")
_LAST = text("""select s.id, x.state from schedules s cross join lateral (select e.state from executions e
    where e.schedule_id = s.id and e.state <> 'skipped' order by e.due_at desc, e.id desc limit 1) x""")


def occurrences(connection: Connection, schedule_id: UUID, *, limit: int) -> list[dict[str, Any]]:
    """Executions of one schedule, newest due time first, with their tasks in the order of the plan."""
    return [dict(row) for row in connection.execute(_OF_SCHEDULE, {"id": schedule_id, "limit": limit}).mappings()]


def one(connection: Connection, execution_id: UUID) -> dict[str, Any] | None:
    """One execution with its tasks, or None."""
    row = connection.execute(_ONE, {"id": execution_id}).mappings().first()
    return None if row is None else dict(row)


def last_states(connection: Connection) -> dict[UUID, str]:
    """For each schedule the state of its newest execution, leaving out those that were skipped."""
    return {row[0]: row[1] for row in connection.execute(_LAST)}
