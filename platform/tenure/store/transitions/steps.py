"""The tasks of executions: submitted all at once, `waiting` until their group's turn comes, then promoted or cancelled.

Whoever promotes or cancels here holds the execution's row: two advances never meet on its tasks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, Double, Uuid, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from tenure.model.executions import PlanStep
from tenure.model.records import Initiator
from tenure.store.transitions.parts import CLOSED, HINT_NOTIFY, HINTED, closing, event, hint, of
from tenure.store.transitions.submit_many import batches


@dataclass(frozen=True)
class StepTask:
    """One task to be. `params` is JSON text; durations are seconds, a deadline's count from when it is queued."""

    id: UUID
    execution_id: UUID
    group_index: int
    kind: str
    queue: str
    priority: int
    params: str
    params_version: int
    request_hash: str  # hex
    submitter: str
    initiator: Initiator
    context: str
    labels: dict[str, str]
    scope: str | None
    exclusive: bool
    run_limit: float | None
    deadline: float | None
    max_attempts: int
    on_lost: str
    keep_params: bool
    plans: bool
    waiting: bool

    def document(self) -> str:
        """The row as JSON text; its params go in as they are."""
        given = {name: value for name, value in vars(self).items() if name not in ("params", "initiator")}
        given |= {"id": str(self.id), "execution_id": str(self.execution_id)}
        given |= {f"initiator_{part}": getattr(self.initiator, part) for part in ("type", "id", "name")}
        return f'{json.dumps(given, ensure_ascii=False)[:-1]}, "params": {self.params}}}'


_SUBMIT = text(f"""with
    r as materialized (select * from json_to_recordset(cast(:rows as json)) as r(id uuid, execution_id uuid,
              group_index integer, kind text, queue text, priority smallint, params jsonb, params_version smallint,
              request_hash text, submitter text, initiator_type text, initiator_id text, initiator_name text, context text, labels jsonb,
              scope text, exclusive boolean, run_limit float8, deadline float8, max_attempts integer, on_lost text,
              keep_params boolean, plans boolean, waiting boolean)),
    t as (insert into tasks (id, kind, queue, priority, state, request_hash, submitter, initiator_type, initiator_id,
              initiator_name, labels, scope, exclusive, available_at, deadline, run_limit, max_attempts, on_lost, keep_params,
              plans, activity_id, execution_id, step_index)
          select r.id, r.kind, r.queue, r.priority, case when r.waiting then 'waiting' else 'queued' end,
              decode(r.request_hash, 'hex'), r.submitter, r.initiator_type, r.initiator_id, r.initiator_name, r.labels, r.scope,
              r.exclusive, clock_timestamp(),
              case when not r.waiting then clock_timestamp() + make_interval(secs => r.deadline) end,
              make_interval(secs => r.run_limit), r.max_attempts, r.on_lost, r.keep_params, r.plans, r.id,
              r.execution_id, r.group_index
          from r order by r.id
          returning {HINTED}),
    p as (insert into task_params (task_id, params, params_version) select id, params, params_version from r),
    a as (insert into activities (id, task_id, initiator_type, initiator_id, initiator_name, target_type, target_name, context)
          select id, id, initiator_type, initiator_id, initiator_name, 'task', kind, context from r),
    e as ({event("t", "'submit'")}),
    q as (select * from t where state = 'queued' order by id),
    h as ({hint("q")})
    select count(*), ({HINT_NOTIFY}) from t""")


def submit_steps(connection: Connection, tasks: Sequence[StepTask]) -> None:
    """Insert the tasks of executions with all that belongs to them; the first groups' with their hints."""
    made = sum(connection.execute(_SUBMIT, {"rows": rows}).one()[0] for rows in batches(tasks))
    if made != len(tasks):
        raise AssertionError(f"{made} of {len(tasks)} tasks were made")


_PROMOTE = text(f"""with
    w as (select k.id from tasks k where k.id = any(:ids) and k.state = 'waiting' order by k.id for no key update),
    u as (update tasks set state = 'queued', available_at = clock_timestamp(),
             deadline = (select clock_timestamp() + make_interval(secs => d.seconds)
                         from unnest(:ids, :deadlines) d(id, seconds) where d.id = tasks.id)
          where id {of("w")} and state = 'waiting' returning {HINTED}),
    e as ({event("u", "'promote'")}),
    h as ({hint("u")})
    select id from u""").bindparams(bindparam("ids", type_=ARRAY(Uuid)), bindparam("deadlines", type_=ARRAY(Double)))


def promote_group(connection: Connection, steps: Sequence[PlanStep]) -> list[UUID]:
    """The turn of these has come: those that still wait become queued, each with a hint."""
    values = {"ids": [step.task_id for step in steps], "deadlines": [step.deadline_seconds for step in steps]}
    ids = list(connection.execute(_PROMOTE, values).scalars())
    if ids:
        connection.execute(text(HINT_NOTIFY))
    return ids


_CANCEL = text(f"""with
    w as (select k.id from tasks k where k.id = any(:ids) and k.state = 'waiting' order by k.id for no key update),
    u as (update tasks set state = 'cancelled', finished_at = clock_timestamp(), error_code = null,
             error_message = cast(:why as text),
             redacted_at = case when keep_params then null else clock_timestamp() end
          where id {of("w")} and state = 'waiting' returning {CLOSED}),
    e as ({event("u", "'request_cancel'", note="cast(:why as text)")}),
    {closing("u", "'cancelled'")}
    select id from u""").bindparams(bindparam("ids", type_=ARRAY(Uuid)))


def cancel_steps(connection: Connection, ids: Sequence[UUID], *, why: str) -> list[UUID]:
    """Those that still wait end `cancelled`, their activities with them: their turn will never come."""
    return list(connection.execute(_CANCEL, {"ids": list(ids), "why": why}).scalars()) if ids else []
