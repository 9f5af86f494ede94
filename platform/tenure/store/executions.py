"""Executions of schedules: what is written of them, each statement with its guard. Their tasks are the transitions'."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Uuid, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY, TIMESTAMP

from tenure.model.executions import ExecutionState, Member, Plan, Trigger, plan_of
from tenure.model.records import Initiator
from tenure.store.advisory import STARTING, within


@dataclass(frozen=True)
class NewExecution:
    """One row to be; ended at once when `state` is `failed` or `skipped`, and then `reason` says why."""

    id: UUID
    schedule_id: UUID
    schedule_name: str
    trigger: Trigger
    due_at: datetime
    state: ExecutionState
    plan: Plan
    initiator: Initiator
    reason: str | None = None

    def document(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "schedule_id": str(self.schedule_id),
            "schedule_name": self.schedule_name,
            "trigger": self.trigger,
            "due_at": self.due_at.isoformat(),
            "state": self.state,
            "plan": [[step.document() for step in group] for group in self.plan],
            "reason": self.reason,
            **{f"initiator_{part}": getattr(self.initiator, part) for part in ("type", "id", "name")},
        }


# A start that could not be is an activity as well: failed with its reason, never silence.
_INSERT = text("""with
    r as materialized (select * from json_to_recordset(cast(:rows as json)) as r(id uuid, schedule_id uuid, schedule_name text,
              trigger text, due_at timestamptz, state text, plan jsonb, reason text, initiator_type text, initiator_id text,
              initiator_name text)),
    x as (insert into executions (id, schedule_id, schedule_name, trigger, due_at, state, plan, reason, initiator_type,
              initiator_id, initiator_name, started_at, finished_at)
          select id, schedule_id, schedule_name, trigger, due_at, state, plan, reason, initiator_type, initiator_id,
              initiator_name, case when state = 'running' then clock_timestamp() end,
              case when state in ('failed','skipped') then clock_timestamp() end
          from r order by id
          on conflict do nothing
          returning id),
    d as (insert into execution_due (execution_id)
          select x.id from x join r on r.id = x.id where r.state = 'waiting'),
    a as (insert into activities (id, status, initiator_type, initiator_id, initiator_name, target_type, target_id,
              target_name, context, message, ended_at)
          select r.id, 'failed', r.initiator_type, r.initiator_id, r.initiator_name, 'schedule', r.schedule_id::text,
              r.schedule_name, 'execution could not start', r.reason, clock_timestamp()
          from x join r on r.id = x.id where r.state = 'failed')
    select id from x""")


def insert(connection: Connection, rows: Sequence[NewExecution]) -> set[UUID]:
    """Insert executions; the ids of those made. The others' due time has an execution already: nothing was written."""
    if not rows:
        return set()
    documents = json.dumps([row.document() for row in rows], ensure_ascii=False)
    return set(connection.execute(_INSERT, {"rows": documents}).scalars())


@dataclass(frozen=True)
class Active:
    """What of one schedule has not ended."""

    running: UUID | None
    waiting: UUID | None


_ACTIVE = text("""select schedule_id,
        (array_agg(id order by id) filter (where state <> 'waiting'))[1],
        (array_agg(id order by id) filter (where state = 'waiting'))[1]
    from executions where finished_at is null and schedule_id = any(:ids) group by schedule_id""").bindparams(
    bindparam("ids", type_=ARRAY(Uuid))
)


def active(connection: Connection, schedule_ids: Sequence[UUID]) -> dict[UUID, Active]:
    """For each of these schedules with an unfinished execution: one that runs, and one that waits for it."""
    rows = connection.execute(_ACTIVE, {"ids": list(schedule_ids)})
    return {row[0]: Active(row[1], row[2]) for row in rows}


_KNOWN = text("""select due_at from executions where schedule_id = :id and due_at = any(:moments)
    and trigger in ('due','backfill') and state <> 'skipped'""").bindparams(
    bindparam("moments", type_=ARRAY(TIMESTAMP(timezone=True)))
)


def known(connection: Connection, schedule_id: UUID, moments: Sequence[datetime]) -> set[datetime]:
    """Those of these due times that have an execution."""
    return set(connection.execute(_KNOWN, {"id": schedule_id, "moments": list(moments)}).scalars())


@dataclass(frozen=True)
class Locked:
    """An execution whose row this transaction holds."""

    id: UUID
    schedule_id: UUID
    state: ExecutionState
    group_index: int
    plan: list[list[Any]]


_LOCK = "select id, schedule_id, state, group_index, plan from executions where id = :id for no key update"
_LOCK_WAITING, _LOCK_AT_ONCE = text(_LOCK), text(f"{_LOCK} nowait")


def lock(connection: Connection, execution_id: UUID, *, wait: bool = True) -> Locked | None:
    """Hold the execution until the caller's transaction ends: the first statement of whoever moves it.

    With `wait` false an OperationalError says at once that somebody else has it.
    """
    row = connection.execute(_LOCK_WAITING if wait else _LOCK_AT_ONCE, {"id": execution_id}).first()
    return None if row is None else Locked(row[0], row[1], ExecutionState(row[2]), row[3], plan_of(row[4]))


# One snapshot: what says "look at it" is deleted only where what it tells of is seen.
_MEMBERS = text("""with gone as (delete from execution_due where execution_id = :id)
    select i, k.state, a.status from unnest(:tasks) i left join tasks k on k.id = i
        left join activities a on a.id = coalesce(k.activity_id, i)""").bindparams(
    bindparam("tasks", type_=ARRAY(Uuid))
)


def members(connection: Connection, execution_id: UUID, task_ids: Sequence[UUID]) -> dict[UUID, Member]:
    """What became of the tasks. Only after `lock`, and in a statement of its own: what ended before the row was had must
    be seen, or two members that end together would each take the other for unended."""
    rows = connection.execute(_MEMBERS, {"id": execution_id, "tasks": list(task_ids)})
    return {row[0]: Member(row[1], row[2]) for row in rows}


_ONE_AT_A_TIME = text("select pg_advisory_xact_lock(:key)")
_BEGIN = text("""update executions set state = 'running', started_at = clock_timestamp()
    where id = :id and state = 'waiting' and not exists (select 1 from executions o
        where o.schedule_id = executions.schedule_id and o.finished_at is null and o.state <> 'waiting')""")
_MOVE = text("""update executions set group_index = :to where id = :id and group_index = :expected
    and state = 'running'""")
_SETTLE = text("""with gone as (delete from execution_due where execution_id = :id)
    update executions set state = :state, reason = cast(:reason as text), finished_at = clock_timestamp()
    where id = :id and finished_at is null""")


def begin(connection: Connection, execution_id: UUID, schedule_id: UUID) -> bool:
    """waiting → running, if no other of its schedule runs. False: it has to wait on.

    Two that wait must not each find that none runs: they look one after the other.
    """
    connection.execute(_ONE_AT_A_TIME, {"key": within(STARTING, schedule_id.int & 0xFFFF_FFFF)})
    return connection.execute(_BEGIN, {"id": execution_id}).rowcount == 1


def move(connection: Connection, execution_id: UUID, *, expected: int, to: int) -> bool:
    """The turn of group `to` has come. False: it is not at group `expected` any more, or does not run."""
    return connection.execute(_MOVE, {"id": execution_id, "expected": expected, "to": to}).rowcount == 1


def settle(connection: Connection, execution_id: UUID, state: ExecutionState, reason: str | None) -> bool:
    """End an execution. False: it has ended already."""
    values = {"id": execution_id, "state": state, "reason": reason}
    return connection.execute(_SETTLE, values).rowcount == 1


_ASK_CANCEL = text("""update executions set state = 'cancelling', cancel_asked_by = :by
    where id = :id and state in ('waiting','running') returning plan""")
_LOOK_AT = text("insert into execution_due (execution_id) values (:id)")


def ask_cancel(connection: Connection, execution_id: UUID, *, by: str) -> list[UUID] | None:
    """waiting, running → cancelling, and have it looked at; its tasks' ids. None: it is neither."""
    row = connection.execute(_ASK_CANCEL, {"id": execution_id, "by": by}).first()
    if row is None:
        return None
    connection.execute(_LOOK_AT, {"id": execution_id})
    return sorted(step.task_id for group in plan_of(row[0]) for step in group)
