"""Why a task does not run: the facts behind the one predicate of a claim, read in one statement. Changes nothing."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.store.transitions.claim import claimable, refusal

AHEAD_LIMIT = 10_000  # counting further would read the whole queue to say "many"

_FACTS = text(f"""select tasks.id, kind, queue, priority, state, outcome, error_message, available_at, start_by, deadline,
       attempt, max_attempts, finished_at,
       ({claimable(locking=False)}) as claimable,
       case when state = 'queued' then {refusal(locking=False)} end as refusal,
       state = 'queued' and available_at > clock_timestamp() as early,
       greatest(extract(epoch from available_at - clock_timestamp()), 0)::float8 as due_in,
       coalesce(deadline <= clock_timestamp(), false) as past_deadline,
       coalesce(start_by <= clock_timestamp(), false) as past_start_by,
       (select s.asked_by from task_stops s where s.task_id = tasks.id order by s.id limit 1) as stop_by,
       (select p.paused_by from pauses p where p.what = 'kind' and p.name = tasks.kind) as kind_paused_by,
       (select p.paused_by from pauses p where p.what = 'queue' and p.name = tasks.queue) as queue_paused_by,
       (select count(*) from workers w where {{live}}) as workers,
       (select count(*) from workers w where {{live}} and tasks.kind = any(w.kinds)) as knowing,
       (select count(*) from workers w where {{live}} and tasks.kind = any(w.kinds)
           and tasks.queue = any(w.queues)) as serving,
       case when state = 'queued' then (select count(*) from (select 1 from tasks o
           where o.state = 'queued' and o.queue = tasks.queue
             and (o.priority > tasks.priority or (o.priority = tasks.priority and o.id < tasks.id))
           limit {AHEAD_LIMIT}) ahead) end as ahead
  from tasks where tasks.id = :id""".replace(
    "{live}", "w.role = 'worker' and w.ended_at is null and w.last_seen > clock_timestamp() - make_interval(secs => :overdue)"
))  # fmt: skip

_HOLDER = text("""select l.token, l.pid, l.worker, l.attempt, l.acquired, l.expires, w.node,
       extract(epoch from l.expires - clock_timestamp())::float8 as seconds_left
  from task_leases l left join workers w on w.boot_id = l.worker where l.task_id = :id""")


def facts(connection: Connection, task_id: UUID, *, overdue: float) -> dict[str, Any] | None:
    """All a claim looks at for one task, or None. A worker silent for more than `overdue` seconds does not count."""
    row = connection.execute(_FACTS, {"id": task_id, "overdue": overdue}).mappings().first()
    return None if row is None else dict(row)


def holder(connection: Connection, task_id: UUID) -> dict[str, Any] | None:
    """Who holds the task: token, node, pid, worker, seconds_left of the lease; None when nobody does."""
    row = connection.execute(_HOLDER, {"id": task_id}).mappings().first()
    return None if row is None else dict(row)
