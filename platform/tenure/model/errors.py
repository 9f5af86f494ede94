"""Every error Tenure raises on purpose, in one tree; each message is one clear line that says what to do.

TenureError
├── UsageError            the caller asked for something that cannot be (exit code 2)
│   ├── InvalidSettings   a setting is missing or wrong
│   ├── InvalidKind       a kind is declared wrongly, twice, or cannot be loaded
│   ├── UnknownKind       no kind of that name is installed here
│   ├── InvalidParams     params do not fit the kind's model; names the field
│   ├── InvalidResult     what a body returned cannot be stored
│   ├── PayloadTooLarge   params exceed the size limit
│   ├── InvalidCheckpoint a checkpoint before the plan step has ended
│   └── ScheduleInvalid   a schedule's cron line, zone, interval or step is wrong; names the field
├── Refused               the state of things forbids it (exit code 1)
│   ├── IdempotencyConflict
│   ├── ActiveLimitReached
│   ├── KindIsInternal
│   ├── NoSuchTask
│   ├── TooLate           the task has already ended
│   ├── NotTerminal       retry of a task that has not ended
│   ├── ScheduleKept      somebody else keeps a schedule of that name
│   ├── NoSuchSchedule
│   ├── ScheduleExists
│   ├── ScheduleIsBuiltIn
│   ├── ScheduleOverlaps  an execution of it has not ended, and its policy lets no other start
│   ├── RevisionConflict  it was changed since it was looked at
│   ├── NoSuchExecution
│   └── NotEnded          whoever waited for a task waited long enough
└── Unavailable           something outside is missing (exit code 1)
    ├── DatabaseUnavailable
    ├── CredentialsRejected
    ├── SchemaMismatch
    └── BrokerUnavailable
"""

from __future__ import annotations


class TenureError(Exception):
    """Base of every expected failure. Never carries a payload, a secret, a URL or a driver's text."""

    exit_code = 1


class UsageError(TenureError):
    exit_code = 2


class InvalidSettings(UsageError):
    pass


class InvalidKind(UsageError):
    pass


class UnknownKind(UsageError):
    pass


class InvalidParams(UsageError):
    pass


class InvalidResult(UsageError):
    pass


class PayloadTooLarge(UsageError):
    pass


class InvalidCheckpoint(UsageError):
    pass


class ScheduleInvalid(UsageError):
    pass


class Refused(TenureError):
    pass


class IdempotencyConflict(Refused):
    pass


class ActiveLimitReached(Refused):
    pass


class KindIsInternal(Refused):
    pass


class NoSuchTask(Refused):
    pass


class TooLate(Refused):
    pass


class NotTerminal(Refused):
    pass


class ScheduleKept(Refused):
    pass


class NotEnded(Refused):
    pass


class NoSuchSchedule(Refused):
    pass


class ScheduleExists(Refused):
    pass


class ScheduleIsBuiltIn(Refused):
    pass


class ScheduleOverlaps(Refused):
    pass


class RevisionConflict(Refused):
    pass


class NoSuchExecution(Refused):
    pass


class Unavailable(TenureError):
    pass


class DatabaseUnavailable(Unavailable):
    pass


class CredentialsRejected(Unavailable):
    pass


class SchemaMismatch(Unavailable):
    pass


class BrokerUnavailable(Unavailable):
    pass


def shortened(value: object, limit: int = 60) -> str:
    """A value as it may appear in a message: one line that steers no terminal, cut to `limit` characters."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(str(value).split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"
