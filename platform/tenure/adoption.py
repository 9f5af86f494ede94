"""adopt: a request that came as a message becomes a task under its own id, whatever happens to the message.

Delivered again it changes nothing; a request that cannot be run ends `failed rejected`, without what it was given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from tenure import client
from tenure.model import requests
from tenure.model.errors import KindIsInternal, Refused, UsageError, shortened
from tenure.model.kinds import KindSpec
from tenure.model.records import Initiator
from tenure.store.transitions import reject as rejecting
from tenure.store.transitions import submit as submitting

REASON = 500  # characters of a stored reason
NOTE = "adopted"


class Adopted(StrEnum):
    """What became of the request."""

    MADE = "made"
    KNOWN = "known"  # the same message before, or its task was purged
    REJECTED = "rejected"


@dataclass(frozen=True)
class Request:
    """What a message asked for. `refusal`: why it cannot be, where whoever read it knows already.

    Initiator and labels must be fit to be stored: a rejected task has them too.
    """

    task_id: UUID
    initiator: Initiator
    params: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)
    submitter: str = ""
    key: str | None = None
    at: datetime | None = None
    start_by: datetime | None = None
    deadline: datetime | timedelta | None = None
    priority: int | None = None
    scope: str | None = None
    refusal: str | None = None


def adopt(connection: Connection, spec: KindSpec, request: Request) -> Adopted:
    """Insert the task, unless its id is known; commit is the caller's. No hint is written: the message is at hand.

    What `submit` would refuse becomes a rejected task whose error names the field; its values are not quoted.
    """
    if any(submitting.taken(connection, request.task_id)):
        return Adopted.KNOWN
    try:
        if request.refusal is not None:
            raise UsageError(request.refusal)
        return _make(connection, spec, request)
    except (UsageError, Refused) as error:
        return _reject(connection, spec, request, str(error))


def _make(connection: Connection, spec: KindSpec, request: Request) -> Adopted:
    if spec.internal is not None:
        raise KindIsInternal(f"kind {spec.name} is internal: use {spec.internal}")
    made = client.create(
        connection, spec, spec.validate(request.params, own_checks=False), initiator=request.initiator,
        submitter=request.submitter, key=request.key, at=request.at, start_by=request.start_by,
        deadline=request.deadline, priority=request.priority, labels=request.labels, scope=request.scope,
        task_id=request.task_id, note=NOTE, hinted=False,
    )  # fmt: skip
    if made.id != request.task_id:
        raise UsageError(f"its idempotency key belongs to task {made.id}, which answers for this request")
    return Adopted.MADE if made.created else Adopted.KNOWN


def _reject(connection: Connection, spec: KindSpec, request: Request, reason: str) -> Adopted:
    """The row is made queued and ended in the same transaction: nobody else ever sees it queued."""
    said = shortened(requests.storable(reason) or "", REASON)
    made = submitting.insert(
        connection,
        submitting.Submission(
            id=request.task_id, kind=spec.name, queue=spec.queue, priority=spec.priority, params="{}",
            request_hash=hashlib.sha256(b"").digest(), initiator=request.initiator, max_attempts=spec.max_attempts,
            on_lost=spec.on_lost, keep_params=False, plans=spec.plans, labels=dict(request.labels), note=NOTE,
            hinted=False,
        ),
    )  # fmt: skip
    if not made:
        return Adopted.KNOWN
    if not rejecting.reject(connection, request.task_id, reason=said):
        raise AssertionError("a task made in this transaction was not there to be rejected")
    return Adopted.REJECTED
