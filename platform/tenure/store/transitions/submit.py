"""submit: a task, its params, its activity, its history and its hint, in the caller's own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Connection, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, JSONB, TIMESTAMP

from tenure.model.records import Initiator
from tenure.store.transitions.parts import HINT_NOTIFY, HINTED, event, hint


@dataclass(frozen=True)
class Submission:
    """One row to be. `available_at` None means now; durations are timedeltas; `params` is JSON text."""

    id: UUID
    kind: str
    queue: str
    priority: int
    params: str
    request_hash: bytes
    initiator: Initiator
    max_attempts: int
    on_lost: str
    keep_params: bool
    plans: bool
    submitter: str = ""
    key: str | None = None
    labels: dict[str, str] | None = None
    scope: str | None = None
    exclusive: bool = False
    available_at: datetime | None = None
    start_by: datetime | None = None
    deadline: datetime | None = None
    deadline_in: timedelta | None = None
    run_limit: timedelta | None = None
    activity_id: UUID | None = None
    retry_of: UUID | None = None
    note: str | None = None
    params_version: int = 1
    hinted: bool = True  # False: the message at hand is the hint, and its id is remembered when the task is purged


# Scheduled tasks have no hint until they are promoted. ON CONFLICT waits for a racing submitter of the same key or id.
_SUBMIT = text(f"""with
    t as (insert into tasks (id, kind, queue, priority, state, request_hash, idempotency_key, submitter,
              initiator_type, initiator_id, initiator_name, labels, scope, exclusive, available_at, start_by, deadline,
              run_limit, max_attempts, on_lost, keep_params, plans, activity_id, retry_of, adopted)
          select :id, :kind, :queue, :priority,
              case when cast(:available_at as timestamptz) > clock_timestamp() then 'scheduled' else 'queued' end,
              :request_hash, cast(:key as text), :submitter, :initiator_type, :initiator_id, :initiator_name, :labels,
              cast(:scope as text), :exclusive, coalesce(cast(:available_at as timestamptz), clock_timestamp()),
              cast(:start_by as timestamptz),
              coalesce(cast(:deadline as timestamptz), clock_timestamp() + cast(:deadline_in as interval)),
              cast(:run_limit as interval), :max_attempts, :on_lost, :keep_params, :plans,
              coalesce(cast(:activity_id as uuid), :id), cast(:retry_of as uuid), not :hinted
          on conflict do nothing
          returning {HINTED}, activity_id),
    p as (insert into task_params (task_id, params, params_version) select id, cast(:params as jsonb), :params_version from t),
    a as (insert into activities (id, task_id, initiator_type, initiator_id, initiator_name, target_type, target_name)
          select activity_id, id, :initiator_type, :initiator_id, :initiator_name, 'task', kind from t
          where cast(:activity_id as uuid) is null),
    e as ({event("t", "'submit'", note="cast(:note as text)")}),
    q as (select * from t where state = 'queued' and :hinted),
    h as ({hint("q")})
    select id, case when :hinted then ({HINT_NOTIFY}) end from t""").bindparams(
    bindparam("labels", type_=JSONB),
    bindparam("available_at", type_=TIMESTAMP(timezone=True)),
    bindparam("start_by", type_=TIMESTAMP(timezone=True)),
    bindparam("deadline", type_=TIMESTAMP(timezone=True)),
    bindparam("deadline_in", type_=INTERVAL),
    bindparam("run_limit", type_=INTERVAL),
)

_BY_KEY = text("select id, kind, request_hash from tasks where submitter = :submitter and idempotency_key = :key")
_BY_ID = text("select id, kind, request_hash from tasks where id = :id")
# One snapshot: a purge moves an id from one to the other, and must not slip through between two looks.
_TAKEN = text("""select exists (select 1 from tasks where id = :id),
    exists (select 1 from adopted_ids where id = :id)""")

_ACTIVE_COUNT = text("""select count(*) from tasks where kind = any(:kinds) and submitter = :submitter
    and state not in ('succeeded','partially_succeeded','failed','cancelled')""")
# Sorted by the database itself, so that two callers with several kinds take them in one order.
_LIMIT_LOCKS = text("select pg_advisory_xact_lock(k) from unnest(:keys) k order by k").bindparams(
    bindparam("keys", type_=ARRAY(BigInteger))
)


def insert(connection: Connection, submission: Submission) -> bool:
    """Insert the task with all that belongs to it. False: its (submitter, key) or id is taken, nothing was written."""
    values: dict[str, Any] = dict(vars(submission))
    initiator = values.pop("initiator")
    values |= {
        "initiator_type": initiator.type,
        "initiator_id": initiator.id,
        "initiator_name": initiator.name,
        "labels": submission.labels or {},
    }
    return connection.execute(_SUBMIT, values).first() is not None


def by_key(connection: Connection, submitter: str, key: str) -> tuple[UUID, str, bytes] | None:
    """(id, kind, request hash) of the task that holds this idempotency key."""
    row = connection.execute(_BY_KEY, {"submitter": submitter, "key": key}).first()
    return None if row is None else (row[0], row[1], bytes(row[2]))


def by_id(connection: Connection, task_id: UUID) -> tuple[UUID, str, bytes] | None:
    """(id, kind, request hash) of the task of this id."""
    row = connection.execute(_BY_ID, {"id": task_id}).first()
    return None if row is None else (row[0], row[1], bytes(row[2]))


def taken(connection: Connection, task_id: UUID) -> tuple[bool, bool]:
    """(there is a task of this id, there was one and it was purged)."""
    row = connection.execute(_TAKEN, {"id": task_id}).one()
    return bool(row[0]), bool(row[1])


def active_count(connection: Connection, kinds: Sequence[str], submitter: str) -> int:
    """Tasks of these kinds and this submitter that have not ended. Call it under `lock_limits`."""
    return int(connection.execute(_ACTIVE_COUNT, {"kinds": list(kinds), "submitter": submitter}).scalar_one())


def lock_limits(connection: Connection, keys: list[int]) -> None:
    """Serialise submitters that count the same active limit, until the caller's transaction ends."""
    connection.execute(_LIMIT_LOCKS, {"keys": keys})
