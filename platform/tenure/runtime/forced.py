"""The end of an attempt whose body is out of reach, written by somebody else of its worker: by the stop it did not obey."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from tenure.model.records import Ended, Holder
from tenure.model.stops import Cause, stop_for
from tenure.registry import Registry
from tenure.runtime.outcome import of_stop
from tenure.store import leases
from tenure.store.transitions.force import force


@dataclass(frozen=True)
class Forced:
    """What was written."""

    task_id: UUID
    kind: str
    how: Ended

    def said(self) -> dict[str, str | None]:
        """Fields of a log line."""
        return {"task_id": str(self.task_id), "kind": self.kind, "state": self.how.state, "outcome": self.how.outcome}


def force_end(
    connection: Connection, registry: Registry, holder: Holder, token: int, cause: Cause | None
) -> Forced | None:
    """End the attempt of this token as its cause asks. None: no stop was asked that an end may be written for, or the
    lease was settled already, and nothing was done.

    Only for a holder that is gone, or a thread that nothing ends: its token is void from here on.
    """
    if cause is None or cause is Cause.LEASE_LOST:
        return None
    kind = leases.kind_of(connection, holder.worker, token)
    if kind is None or kind not in registry:
        return None
    how = of_stop(stop_for(cause), registry.spec(kind))
    task_id = force(connection, holder.worker, holder.pid, token, how)
    return None if task_id is None else Forced(task_id, kind, how)
