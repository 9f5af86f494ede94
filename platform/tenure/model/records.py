"""The values that pass between store, runtime and client: plain, immutable, without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class Initiator:
    """Who asked, as durable names: they outlive the account. `tenure.model.initiators` says which are allowed."""

    type: str
    id: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True)
class Holder:
    """Who may write: one process of one boot of one worker."""

    worker: UUID  # boot id
    pid: int


@dataclass(frozen=True)
class Lease:
    """Tenure of one task. The fence compares token, boot id and pid."""

    task_id: UUID
    token: int
    holder: Holder


@dataclass(frozen=True)
class Claimed:
    """A task just claimed, with all its body needs."""

    lease: Lease
    kind: str
    attempt: int
    crashes: int
    max_attempts: int
    activity_id: UUID
    params: str | None  # JSON text
    cursor: str | None  # JSON text of the last checkpoint
    sequence: int
    seconds_left: float | None  # to the deadline
    params_version: int = 1
    execution_id: UUID | None = None  # of the schedule it is a step of


@dataclass(frozen=True)
class Submitted:
    """What `submit` answers: the id, and whether this call made the task or found it by its key.

    `conflict`, from `submit_many` only: the key belongs to this task with another request; what is wrong, in a sentence.
    """

    id: UUID
    created: bool
    conflict: str | None = None


@dataclass(frozen=True)
class Ended:
    """How an attempt ended, as the end statement takes it."""

    verb: str
    state: str
    outcome: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    activity: str = "complete"
    available_after: float | None = None  # seconds, for retry_later and for a release that must not be taken at once
    stack: str | None = None  # of an unexpected error: files, lines and functions, no values
