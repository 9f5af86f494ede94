"""The four causes that stop an attempt, and the exception each is raised as.

A stop is no error: nothing here belongs to the tree of `tenure.model.errors`. Never catch one without raising it again.
"""

from enum import IntEnum
from typing import ClassVar


class Cause(IntEnum):
    """Why an attempt has to stop. In shared memory 0 means "no stop", and 15 is the most that fits."""

    CANCEL = 1
    DEADLINE = 2
    SHUTDOWN = 3
    LEASE_LOST = 4

    @property
    def rank(self) -> int:
        """Lower is stronger. A lost lease outranks all, since nothing the attempt writes counts any more; then the
        order in which recovery decides: a shutdown must not hide the cancel that somebody is waiting for."""
        return 0 if self is Cause.LEASE_LOST else int(self)


class Stop(BaseException):
    """Raised inside a task's body to end it. Only its subclasses are raised; each has its `cause`.

    A BaseException, so that an author's `except Exception` around one item of a page cannot swallow it; `finally` and
    context managers still run, which is how a body cleans up.
    """

    cause: ClassVar[Cause]
    message: ClassVar[str] = "the attempt was asked to stop"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.message)


class Cancelled(Stop):
    """Somebody asked for the task to be cancelled."""

    cause = Cause.CANCEL
    message = "the task was cancelled on request"


class DeadlineExceeded(Stop):
    """The task's deadline or its kind's run limit has passed."""

    cause = Cause.DEADLINE
    message = "the task ran past its deadline"


class ShuttingDown(Stop):
    """The worker is leaving; the kind's `on_shutdown` decides what becomes of the task."""

    cause = Cause.SHUTDOWN
    message = "the worker is shutting down"


class LeaseLost(Stop):
    """The lease has expired, was taken over, or can no longer be trusted: whatever is written now may be refused."""

    cause = Cause.LEASE_LOST
    message = "the lease on the task is lost: another attempt may hold it"


_BY_CAUSE: dict[Cause, type[Stop]] = {
    stop.cause: stop for stop in (Cancelled, DeadlineExceeded, ShuttingDown, LeaseLost)
}


def stop_for(cause: int) -> Stop:
    """The exception to raise for a cause. ValueError if the number is no `Cause` (0, "no stop", is none)."""
    return _BY_CAUSE[Cause(cause)]()
