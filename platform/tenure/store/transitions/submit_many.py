"""submit, many at once: all rows of up to BATCH tasks of one kind in one statement, in the caller's own transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from sqlalchemy import Connection, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from tenure.model.kinds import KindSpec
from tenure.model.records import Initiator
from tenure.store.transitions.parts import HINT_NOTIFY, HINTED, event, hint

BATCH = 1000
BATCH_CHARACTERS = 8 << 20  # of rows in one statement: a batch of large params must not grow to a gigabyte


@dataclass(frozen=True)
class Row:
    """What differs from task to task; `params` is JSON text."""

    id: UUID
    params: str
    request_hash: str  # hex
    key: str | None
    priority: int
    labels: dict[str, str]
    scope: str | None
    exclusive: bool
    at: datetime | None
    start_by: datetime | None
    deadline: datetime | timedelta | None

    def document(self) -> str:
        """The row as JSON text; its params go in as they are."""
        given: dict[str, object] = {"id": str(self.id), "hash": self.request_hash, "priority": self.priority}
        if self.key is not None:
            given["key"] = self.key
        if self.labels:
            given["labels"] = self.labels
        if self.exclusive:
            given["exclusive"] = True
        if self.scope is not None:
            given["scope"] = self.scope
        for name, time in (("available_at", self.at), ("start_by", self.start_by), ("deadline", self.deadline)):
            if isinstance(time, datetime):
                given[name] = time.isoformat()
        if isinstance(self.deadline, timedelta):
            given["deadline_in"] = self.deadline.total_seconds()
        return f'{json.dumps(given, ensure_ascii=False)[:-1]}, "params": {self.params}}}'


# Keys are inserted in one order by everybody: two callers with the same keys wait for each other, and do not deadlock.
_SUBMIT = text(f"""with
    r as materialized (select * from json_to_recordset(cast(:rows as json)) as r(id uuid, params jsonb, hash text, key text,
              priority smallint, labels jsonb, scope text, exclusive boolean, available_at timestamptz, start_by timestamptz,
              deadline timestamptz, deadline_in float8)),
    t as (insert into tasks (id, kind, queue, priority, state, request_hash, idempotency_key, submitter,
              initiator_type, initiator_id, initiator_name, labels, scope, exclusive, available_at, start_by, deadline,
              run_limit, max_attempts, on_lost, keep_params, plans, activity_id)
          select r.id, :kind, :queue, r.priority,
              case when r.available_at > clock_timestamp() then 'scheduled' else 'queued' end,
              decode(r.hash, 'hex'), r.key, :submitter, :initiator_type, :initiator_id, :initiator_name,
              coalesce(r.labels, '{{}}'), r.scope, coalesce(r.exclusive, false), coalesce(r.available_at, clock_timestamp()), r.start_by,
              coalesce(r.deadline, clock_timestamp() + make_interval(secs => r.deadline_in)),
              cast(:run_limit as interval), :max_attempts, :on_lost, :keep_params, :plans,
              coalesce(cast(:activity_id as uuid), r.id)
          from r order by r.key collate "C", r.id
          on conflict do nothing
          returning {HINTED}, activity_id),
    p as (insert into task_params (task_id, params, params_version)
          select r.id, coalesce(r.params, 'null'), :params_version from r join t on t.id = r.id),
    a as (insert into activities (id, task_id, initiator_type, initiator_id, initiator_name, target_type, target_name)
          select activity_id, id, :initiator_type, :initiator_id, :initiator_name, 'task', kind from t
          where cast(:activity_id as uuid) is null),
    e as ({event("t", "'submit'")}),
    q as (select * from t where state = 'queued' order by id),
    h as ({hint("q")})
    select id, ({HINT_NOTIFY}) from t""")

_BY_KEYS = text("""select idempotency_key, id, kind, request_hash from tasks
    where submitter = :submitter and idempotency_key = any(:keys)""").bindparams(bindparam("keys", type_=ARRAY(Text)))


def insert_many(
    connection: Connection,
    spec: KindSpec,
    rows: Iterable[Row],
    *,
    initiator: Initiator,
    submitter: str,
    activity_id: UUID | None,
) -> set[UUID]:
    """Insert the tasks with all that belongs to them; the ids of those made. For the others nothing was written: their
    keys are taken."""
    common = {
        "kind": spec.name, "queue": spec.queue, "submitter": submitter, "initiator_type": initiator.type,
        "initiator_id": initiator.id, "initiator_name": initiator.name, "run_limit": spec.run_limit_interval,
        "max_attempts": spec.max_attempts, "on_lost": spec.on_lost, "keep_params": spec.keep_params is not None,
        "plans": spec.plans, "params_version": spec.version, "activity_id": activity_id,
    }  # fmt: skip
    made: set[UUID] = set()
    # One order over all batches as well, for the same reason.
    ordered = sorted(rows, key=lambda row: (row.key is None, row.key or ""))
    for batch in batches(ordered):
        made.update(row[0] for row in connection.execute(_SUBMIT, {**common, "rows": batch}))
    return made


class Document(Protocol):
    def document(self) -> str: ...


def batches(rows: Iterable[Document]) -> Iterator[str]:
    """JSON arrays of up to BATCH rows and about BATCH_CHARACTERS."""
    batch: list[str] = []
    size = 0
    for row in rows:
        batch.append(row.document())
        size += len(batch[-1])
        if len(batch) >= BATCH or size >= BATCH_CHARACTERS:
            yield f"[{','.join(batch)}]"
            batch, size = [], 0
    if batch:
        yield f"[{','.join(batch)}]"


def by_keys(connection: Connection, submitter: str, keys: Sequence[str]) -> dict[str, tuple[UUID, str, str]]:
    """key → (id, kind, request hash in hex) of the tasks that hold these idempotency keys."""
    if not keys:
        return {}
    rows = connection.execute(_BY_KEYS, {"submitter": submitter, "keys": list(keys)})
    return {row[0]: (row[1], row[2], bytes(row[3]).hex()) for row in rows}
