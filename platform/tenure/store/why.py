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
       scope, exclusive,
       extract(epoch from clock_timestamp() - available_at)::float8 as queued_for,
       exists (select 1 from task_hints h where h.task_id = tasks.id) as hinted,
       (select extract(epoch from clock_timestamp() - b.updated_at)::float8 from broker_state b where b.id = 1) as broker_silent,
       (select s.asked_by from task_stops s where s.task_id = tasks.id order by s.id limit 1) as stop_by,
       (select count(*) from workers w where {{live}}) as workers,
       (select count(*) from workers w where {{live}} and tasks.kind = any(w.kinds)) as knowing,
       (select count(*) from workers w where {{live}} and tasks.kind = any(w.kinds)
           and tasks.queue = any(w.queues)) as serving,
       case when state = 'queued' then coalesce((select (select count(*) from (select 1 from task_hints o
           where o.queue = h.queue and (o.turn, o.id) < (h.turn, h.id) limit {AHEAD_LIMIT}) ahead)
           from task_hints h where h.task_id = tasks.id order by h.id limit 1), 0) end as ahead
  from tasks where tasks.id = :id""".replace(
    "{live}", "w.role = 'worker' and w.ended_at is null and w.last_seen > clock_timestamp() - make_interval(secs => :overdue)"
))  # fmt: skip

_HOLDER = text("""select l.token, l.pid, l.worker, l.attempt, l.acquired, l.expires, w.node,
       extract(epoch from l.expires - clock_timestamp())::float8 as seconds_left
  from task_leases l left join workers w on w.boot_id = l.worker where l.task_id = :id""")

_PAUSES = text("""select p.what, p.paused_by, p.reason, p.created_at from pauses p join tasks k on k.id = :id
    where (p.what = 'kind' and p.name = k.kind) or (p.what = 'queue' and p.name = k.queue) order by p.what""")

_LIMITS = text("""select l.what, l.name, coalesce(l.at_most, l.declared) as most, l.set_by,
       (select count(*) from task_leases x where x.expires > clock_timestamp() and (l.what = 'global'
           or (l.what = 'kind' and x.kind = k.kind) or (l.what in ('scope', 'each scope') and x.scope = k.scope))) as running
  from tasks k join limits l on (l.what = 'global' and l.name = '') or (l.what = 'kind' and l.name = k.kind)
       or (l.what = 'scope' and l.name = k.scope)
       or (l.what = 'each scope' and l.name = k.kind and k.scope is not null
           and not exists (select 1 from limits o where o.what = 'scope' and o.name = k.scope))
 where k.id = :id order by l.what""")

# Who runs beside it though it may not, or waits to run alone before it.
_BESIDE = text("""select x.task_id, x.kind, false as waits from task_leases x join tasks k on k.id = :id
        where x.expires > clock_timestamp()
          and ((x.exclusive and (x.scope is null or x.scope = k.scope)) or (k.exclusive and (k.scope is null or x.scope = k.scope)))
    union all select o.id, o.kind, true from exclusive_turns e join tasks o on o.id = e.task_id join tasks k on k.id = :id
        where e.until > clock_timestamp() and e.task_id <> k.id and o.state = 'queued'
          and (e.scope is null or e.scope = k.scope or (k.exclusive and k.scope is null))
    limit 5""")


# Where the task stands in its execution, and what it waits for.
_TURN = text("""select x.id as execution_id, x.schedule_name, x.state as execution_state, x.group_index,
       jsonb_array_length(x.plan) as groups, k.step_index,
       (select count(*) from tasks o where o.execution_id = x.id and o.step_index < k.step_index and o.finished_at is null) as before,
       (select o.id from executions o where o.schedule_id = x.schedule_id and o.finished_at is null and o.state <> 'waiting'
           order by o.id limit 1) as behind
  from tasks k join executions x on x.id = k.execution_id where k.id = :id""")


def turn(connection: Connection, task_id: UUID) -> dict[str, Any] | None:
    """For a task of an execution: execution_id, schedule_name, execution_state, group_index and groups, its own
    step_index, how many tasks of earlier groups have not ended, and the execution that this one waits behind."""
    row = connection.execute(_TURN, {"id": task_id}).mappings().first()
    return None if row is None else dict(row)


def pauses(connection: Connection, task_id: UUID) -> list[dict[str, Any]]:
    """What of this task is paused: what (kind, queue), paused_by, reason, created_at."""
    return [dict(row) for row in connection.execute(_PAUSES, {"id": task_id}).mappings()]


def limits(connection: Connection, task_id: UUID) -> list[dict[str, Any]]:
    """Every limit that counts for this task: what, name, most, set_by, running now."""
    return [dict(row) for row in connection.execute(_LIMITS, {"id": task_id}).mappings()]


def beside(connection: Connection, task_id: UUID) -> list[dict[str, Any]]:
    """Up to five tasks that keep this one from running by exclusiveness: task_id, kind, waits (for its own turn)."""
    return [dict(row) for row in connection.execute(_BESIDE, {"id": task_id}).mappings()]


def facts(connection: Connection, task_id: UUID, *, overdue: float) -> dict[str, Any] | None:
    """All a claim looks at for one task, or None. A worker silent for more than `overdue` seconds does not count."""
    row = connection.execute(_FACTS, {"id": task_id, "overdue": overdue}).mappings().first()
    return None if row is None else dict(row)


def holder(connection: Connection, task_id: UUID) -> dict[str, Any] | None:
    """Who holds the task: token, node, pid, worker, seconds_left of the lease; None when nobody does."""
    row = connection.execute(_HOLDER, {"id": task_id}).mappings().first()
    return None if row is None else dict(row)


_HANDED_BACK = text("""select error_message from task_attempts where task_id = :id and how = 'released'
    and error_code = 'unknown_version' and ended_at > clock_timestamp() - interval '1 minute'
    order by created_at desc limit 1""")


def handed_back(connection: Connection, task_id: UUID) -> str | None:
    """What a worker said that has just handed the task back because it cannot read its params; None: none has."""
    said: str | None = connection.execute(_HANDED_BACK, {"id": task_id}).scalar()
    return said
