"""submit, get, list, wait, cancel, retry: the verbs of an application, in the caller's own transaction.

`connection` is a SQLAlchemy Connection or ORM Session; nothing here commits. An application needs no broker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from uuid_utils.compat import uuid7

from tenure import settings
from tenure.batch import Item as Item
from tenure.batch import limit_key, limit_reached, not_attachable
from tenure.batch import submit_many as submit_many
from tenure.caller import AnyConnection, connection_of, public_spec_of
from tenure.model import requests
from tenure.model.errors import (
    ActiveLimitReached,
    DatabaseUnavailable,
    IdempotencyConflict,
    InvalidParams,
    NoSuchTask,
    NotEnded,
    NotTerminal,
    TooLate,
    shortened,
)
from tenure.model.kinds import Kind, KindSpec
from tenure.model.records import Initiator, Submitted
from tenure.model.states import TERMINAL, State
from tenure.store import checkpoints, reads
from tenure.store.transitions import cancel as cancelling
from tenure.store.transitions import submit as submitting
from tenure.waiting import Patience, Source, naps, opener
from tenure.why import why as why


def submit(
    connection: AnyConnection,
    kind: str | KindSpec | Kind,
    params: Mapping[str, Any] | BaseModel | None = None,
    *,
    initiator: Initiator,
    submitter: str = "",
    key: str | None = None,
    at: datetime | None = None,
    start_by: datetime | None = None,
    deadline: datetime | timedelta | None = None,
    priority: int | None = None,
    labels: Mapping[str, str] | None = None,
    scope: str | None = None,
    exclusive: bool | None = None,
    activity: UUID | None = None,
    task_id: UUID | None = None,
) -> Submitted:
    """Create a task of a public kind; committed with the caller's transaction or not at all.

    `scope` names what it touches outside, for limits; `exclusive`: nothing runs beside it in its scope, without a scope
    nothing at all. The same (submitter, key) with the same kind and params answers the existing task, also an ended one;
    so does the same `task_id`, for a caller that must choose it (made here otherwise: ids rise with time, and listings
    rely on it). `activity`: one in progress that is to record the task, in place of its own.
    Raises UnknownKind, InvalidParams, PayloadTooLarge, KindIsInternal, ActiveLimitReached, IdempotencyConflict, and Refused
    for an activity that there is not or that has ended.
    """
    spec = public_spec_of(kind)
    return create(
        connection, spec, params, initiator=initiator, submitter=submitter, key=key, at=at, start_by=start_by,
        deadline=deadline, priority=priority, labels=labels, scope=scope, exclusive=exclusive,
        activity=activity, task_id=task_id,
    )  # fmt: skip


def create(
    connection: AnyConnection,
    spec: KindSpec,
    params: Mapping[str, Any] | BaseModel | None = None,
    *,
    initiator: Initiator,
    submitter: str = "",
    key: str | None = None,
    at: datetime | None = None,
    start_by: datetime | None = None,
    deadline: datetime | timedelta | None = None,
    priority: int | None = None,
    labels: Mapping[str, str] | None = None,
    scope: str | None = None,
    exclusive: bool | None = None,
    activity: UUID | None = None,
    task_id: UUID | None = None,
    retry_of: UUID | None = None,
    note: str | None = None,
    hinted: bool = True,
) -> Submitted:
    """`submit` without the check for internal kinds: for domains, inside their own transaction.

    `hinted=False`: no hint is written, for a caller that claims the task itself.
    """
    body = requests.encode(spec, {} if params is None else params, settings.load().params_bytes)
    _check(initiator, submitter, key, labels, priority)
    scope = spec.scope if scope is None else scope
    if scope is not None:
        requests.check_name("scope", scope, shortest=1)
    requests.check_text(note=note)
    requests.check_times(at=at, start_by=start_by, deadline=deadline)
    database = connection_of(connection)
    submission = submitting.Submission(
        id=task_id or UUID(bytes=uuid7().bytes),
        kind=spec.name,
        queue=spec.queue,
        priority=spec.priority if priority is None else priority,
        params=body,
        params_version=spec.version,
        request_hash=hashlib.sha256(body.encode()).digest(),
        initiator=initiator,
        max_attempts=spec.max_attempts,
        on_lost=spec.on_lost,
        keep_params=spec.keep_params is not None,
        plans=spec.plans,
        submitter=submitter,
        key=key,
        labels=dict(labels or {}),
        scope=scope,
        exclusive=spec.exclusive if exclusive is None else exclusive,
        available_at=at,
        start_by=start_by,
        deadline=deadline if isinstance(deadline, datetime) else None,
        deadline_in=deadline if isinstance(deadline, timedelta) else None,
        run_limit=spec.run_limit_interval,
        activity_id=activity,
        retry_of=retry_of,
        note=note,
        hinted=hinted,
    )
    made = _insert(database, spec, submission, own_id=task_id is not None)
    if made.created and retry_of is not None and spec.retry_resumes:
        checkpoints.carry(database, made.id)
    return made


def _check(
    initiator: Initiator, submitter: str, key: str | None, labels: Mapping[str, str] | None, priority: int | None
) -> None:
    requests.check_initiator(initiator)
    requests.check_name("submitter", submitter)
    if key is not None:
        requests.check_name("idempotency_key", key, shortest=1)
    requests.check_labels(labels)
    requests.check_priority(priority)


def _insert(database: Connection, spec: KindSpec, submission: submitting.Submission, *, own_id: bool) -> Submitted:
    if own_id and submitting.taken(database, submission.id) == (False, True):
        raise IdempotencyConflict(f"task {submission.id} has ended and was purged: submit under another id")
    if spec.active_limit is not None:
        submitting.lock_limits(database, [limit_key(spec, submission.submitter)])
        # Whoever held the lock may have submitted this very key: that is the task, and no excess.
        found = _existing(database, spec, submission, own_id)
        if found is not None:
            return found
        if submitting.active_count(database, spec.names, submission.submitter) >= spec.active_limit:
            raise ActiveLimitReached(limit_reached(spec))
    if submission.activity_id is not None and (refusal := not_attachable(database, submission.activity_id)):
        found = _existing(database, spec, submission, own_id)
        if found is not None:
            return found
        raise refusal
    if submitting.insert(database, submission):
        return Submitted(submission.id, True)
    found = _existing(database, spec, submission, own_id)
    if found is None:
        raise IdempotencyConflict("the idempotency key was taken and freed again meanwhile: submit once more")
    return found


def _existing(database: Connection, spec: KindSpec, wanted: submitting.Submission, own_id: bool) -> Submitted | None:
    row, said = None, f"task id {wanted.id}"
    if wanted.key is not None:
        row, said = (
            submitting.by_key(database, wanted.submitter, wanted.key),
            f"idempotency key {shortened(wanted.key)!r}",
        )
    if row is None and own_id:
        row, said = submitting.by_id(database, wanted.id), f"task id {wanted.id}"
    if row is None:
        return None
    if row[1] not in spec.names or row[2] != wanted.request_hash:
        raise IdempotencyConflict(f"{said} belongs to task {row[0]} with another request")
    return Submitted(row[0], False)


def get(connection: AnyConnection, task_id: UUID) -> dict[str, Any]:
    """One task whole: id, kind, state, outcome, attempt, crashes, counters, checkpoint, lease, error, summary,
    timestamps, result, stop, history[], attempts[]; execution_id and group (from 0) of a schedule's step. Raises NoSuchTask."""
    database = connection_of(connection)
    row = reads.one(database, task_id)
    if row is None:
        raise NoSuchTask(f"no task {task_id}")
    saved = reads.checkpoint(database, task_id)
    held = reads.lease(database, task_id)
    error = {"code": row["error_code"], "message": row["error_message"]} if row["error_code"] else None
    stamps = ("created_at", "available_at", "start_by", "deadline", "started_at", "finished_at", "redacted_at")
    fields = (
        "id",
        "kind",
        "queue",
        "priority",
        "state",
        "outcome",
        "attempt",
        "max_attempts",
        "crashes",
        "labels",
        "scope",
        "exclusive",
    )
    return {
        **{name: row[name] for name in fields},
        "initiator": {part: row[f"initiator_{part}"] for part in ("type", "id", "name")},
        "submitter": row["submitter"],
        "key": row["idempotency_key"],
        "counters": {n: saved[n] if saved else None for n in ("total", "processed", "succeeded", "failed")},
        "checkpoint": saved and {n: saved[n] for n in ("sequence", "token", "cursor", "updated_at")},
        "lease": held
        and {n: held[n] for n in ("token", "worker", "pid", "acquired", "renewed", "expires", "seconds_left")},
        "error": error,
        "summary": row["summary"],
        "result": reads.result(database, task_id),
        "stops": reads.stops(database, task_id),
        "retry_of": row["retry_of"],
        "execution_id": row["execution_id"],
        "group": row["step_index"],
        "activity_id": row["activity_id"],
        "timestamps": {name: row[name] for name in stamps},
        "history": reads.history(database, task_id),
        "attempts": reads.attempts(database, task_id),
    }


def glance(connection: AnyConnection, task_id: UUID) -> dict[str, Any]:
    """id, kind, queue, state, outcome, attempt, error_code, error_message, summary, finished_at, the counters and the
    result, in one cheap statement: for whoever polls. Raises NoSuchTask."""
    row = reads.glance(connection_of(connection), task_id)
    if row is None:
        raise NoSuchTask(f"no task {task_id}")
    return row


def wait(source: Source, task_id: UUID, timeout: float | None = None) -> dict[str, Any]:
    """The task whole, as `get` answers it, once it has ended, however it ended.

    `source` is a URL, an engine, or what makes connections or sessions (a sessionmaker): each look has a transaction of
    its own. A database that goes away for less than a minute is waited for. Raises NotEnded after `timeout` seconds (0
    looks once), NoSuchTask, DatabaseUnavailable.
    """
    patience = Patience()
    with opener(source) as opened:
        for _ in naps(timeout):
            try:
                with opened() as connection:
                    patience.found()
                    if glance(connection, task_id)["finished_at"] is not None:
                        return get(connection, task_id)
            except (DBAPIError, DatabaseUnavailable) as error:
                patience.lost(error)
    raise NotEnded(f"task {task_id} has not ended in {timeout:g} s: it goes on")


def tasks(
    connection: AnyConnection,
    *,
    kind: str | None = None,
    states: Sequence[State] = (),
    submitter: str | None = None,
    labels: Mapping[str, str] | None = None,
    execution: UUID | None = None,
    before: UUID | None = None,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Task rows, newest first; `before` (an id) continues a listing."""
    return reads.listing(
        connection_of(connection), kind=kind, states=[s.value for s in states], submitter=submitter,
        labels=dict(labels) if labels else None, execution=execution, before=before, limit=limit,
    )  # fmt: skip


def cancel(connection: AnyConnection, task_id: UUID, *, initiator: Initiator, reason: str | None = None) -> State:
    """Ask a task to stop. Pending: `cancelled` at once. Active: its state, with the stop asked. Twice is harmless.

    Raises NoSuchTask, and TooLate for a task that has succeeded or failed.
    """
    requests.check_initiator(initiator)
    requests.check_text(reason=reason)
    state, _ = cancelling.request(connection_of(connection), task_id, asked_by=str(initiator), reason=reason)
    if state is None:
        raise NoSuchTask(f"no task {task_id}")
    found = State(state)
    if found in TERMINAL and found is not State.CANCELLED:
        raise TooLate(f"task {task_id} has already ended: {found}")
    return found


def retry(
    connection: AnyConnection,
    task_id: UUID,
    *,
    initiator: Initiator,
    params: Mapping[str, Any] | BaseModel | None = None,
    reason: str | None = None,
) -> Submitted:
    """A new task linked to an ended one, from scratch; a kind with `retry_resumes` goes on from the checkpoint when the
    params are the same. Raises NoSuchTask, NotTerminal, KindIsInternal, InvalidParams.

    Params are redacted when a task ends: give them anew, unless the kind keeps them or takes none.
    """
    database = connection_of(connection)
    row = reads.one(database, task_id)
    if row is None:
        raise NoSuchTask(f"no task {task_id}")
    if State(row["state"]) not in TERMINAL:
        raise NotTerminal(f"task {task_id} is {row['state']}: cancel it, or wait for its end")
    spec = public_spec_of(row["kind"])
    body, kept = params, reads.params(database, task_id)
    if body is None and kept is not None:
        body = spec.upgraded(*kept)
    if body is None and spec.params.model_fields:
        raise InvalidParams(f"the params of task {task_id} were redacted when it ended: give them again")
    return create(
        database, spec, body, initiator=initiator, submitter=row["submitter"], priority=row["priority"],
        labels=row["labels"], scope=row["scope"], exclusive=row["exclusive"], retry_of=task_id, note=reason,
    )  # fmt: skip
