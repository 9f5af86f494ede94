"""The transition table: every state, every verb, and who may take which arrow.

`store/` executes it, the database's CHECKs and trigger back it up, and docs/state-machines.md is drawn from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    WAITING = "waiting"  # its step group's turn has not come
    SCHEDULED = "scheduled"  # not due: start time or retry
    QUEUED = "queued"
    VALIDATING = "validating"  # claimed; a kind with a plan step plans before it acts
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIALLY_SUCCEEDED = "partially_succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Outcome(StrEnum):
    """Why a task is `failed`."""

    ERROR = "error"  # no retry policy, or a bug
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    REJECTED = "rejected"  # invalid request
    SERVICE_UNAVAILABLE = "service_unavailable"  # shutdown
    DEADLINE_EXCEEDED = "deadline_exceeded"
    WORKER_LOST = "worker_lost"


PENDING = frozenset({State.WAITING, State.SCHEDULED, State.QUEUED})
ACTIVE = frozenset({State.VALIDATING, State.RUNNING})
TERMINAL = frozenset({State.SUCCEEDED, State.PARTIALLY_SUCCEEDED, State.FAILED, State.CANCELLED})


class Guard(StrEnum):
    """What a verb's statement demands in its WHERE before it changes anything."""

    SUBMISSION = "idempotency, active limit, payload size"
    DUE = "due, or the group's turn"
    CLAIMABLE = "queued by id, due, not paused, no stop asked, within limits and scope"
    FENCE = "token, boot id and pid, lease unexpired by the database's clock"
    NOT_ACTIVE = "not active: ended at once"
    ASKS = "active: a stop is asked, nothing else changes"
    LOST = "lease expired or its process gone, by the database's clock"
    ASKED = "pending, and a stop was asked while it was active: no holder is left to acknowledge it"
    LATE = "start-by or deadline passed, or for days no worker has known the kind, by the database's clock"
    UNCLAIMED = "queued and never claimed (adoption of an invalid message)"


@dataclass(frozen=True)
class Arrow:
    """One allowed change. `to` lists what the verb may lead to; the guard decides."""

    verb: str
    sources: frozenset[State]
    targets: frozenset[State]
    by: str
    guard: Guard


def _arrow(
    verb: str, sources: frozenset[State] | State, targets: frozenset[State] | State, by: str, guard: Guard
) -> Arrow:
    return Arrow(
        verb,
        frozenset({sources}) if isinstance(sources, State) else sources,
        frozenset({targets}) if isinstance(targets, State) else targets,
        by,
        guard,
    )


S = State
ARROWS: tuple[Arrow, ...] = (
    _arrow("submit", frozenset(), PENDING, "client", Guard.SUBMISSION),
    _arrow("promote", frozenset({S.WAITING, S.SCHEDULED}), S.QUEUED, "services", Guard.DUE),
    _arrow("claim", S.QUEUED, ACTIVE, "executor", Guard.CLAIMABLE),
    _arrow("begin", S.VALIDATING, S.RUNNING, "executor", Guard.FENCE),
    _arrow("reject", S.QUEUED, S.FAILED, "executor", Guard.UNCLAIMED),
    _arrow("reject", ACTIVE, S.FAILED, "executor", Guard.FENCE),
    _arrow("checkpoint", S.RUNNING, S.RUNNING, "executor", Guard.FENCE),
    _arrow("succeed", ACTIVE, S.SUCCEEDED, "executor", Guard.FENCE),
    _arrow("partially_succeed", ACTIVE, S.PARTIALLY_SUCCEEDED, "executor", Guard.FENCE),
    _arrow("fail", ACTIVE, S.FAILED, "executor", Guard.FENCE),
    _arrow("retry_later", ACTIVE, S.SCHEDULED, "executor", Guard.FENCE),
    _arrow("release", ACTIVE, S.QUEUED, "executor", Guard.FENCE),
    _arrow("request_cancel", PENDING, S.CANCELLED, "client", Guard.NOT_ACTIVE),
    _arrow("request_cancel", ACTIVE, ACTIVE, "client", Guard.ASKS),
    _arrow("acknowledge_cancel", ACTIVE, S.CANCELLED, "executor", Guard.FENCE),
    _arrow("acknowledge_cancel", PENDING, S.CANCELLED, "services", Guard.ASKED),
    _arrow("recover", ACTIVE, frozenset({S.CANCELLED, S.FAILED, S.QUEUED}), "reaper, keeper", Guard.LOST),
    _arrow("expire", PENDING, S.FAILED, "services", Guard.LATE),
)
VERBS: tuple[str, ...] = tuple(dict.fromkeys(arrow.verb for arrow in ARROWS))


def allowed(verb: str, source: State) -> Arrow | None:
    """The arrow that `verb` may take from `source`, or None: the verb is refused there."""
    return next((a for a in ARROWS if a.verb == verb and source in a.sources), None)
