"""Batch after batch, each with its checkpoint in one fenced transaction, until nothing is left or the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from tenure.retention.pace import MOST_SECONDS, Pace
from tenure.store import settings

if TYPE_CHECKING:
    from tenure.runtime.attempt import Attempt

# The server itself keeps every statement of a batch short, whatever load it meets; and no plan reads a table whole.
_BOUND = text("""select set_config('statement_timeout', :most, true), set_config('lock_timeout', '100', true),
    set_config('enable_seqscan', 'off', true)""")
_UNBOUND = text("set local statement_timeout to default")
_CANCELLED, _LOCKED = "57014", "55P03"
_PATIENCE = 20  # tries at a lock that somebody else has
_PAUSE = 0.2  # s between them


@dataclass(frozen=True)
class Done:
    """A batch that looked at `seen` rows and deleted `gone`; `cursor` is where to go on."""

    seen: int
    gone: int
    cursor: BaseModel


Batch = Callable[[Connection, int], Done | None]


class Budget:
    """The time that this run may take."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @classmethod
    def read(cls, connection: Connection) -> Budget:
        """As `retention.budget_seconds` says now."""
        return cls(settings.value(connection, settings.RETENTION_BUDGET))

    def left(self) -> bool:
        return time.monotonic() < self._until


def drain(attempt: Attempt, budget: Budget, batch: Batch, keep: Callable[[Any], None]) -> bool:
    """Run `batch(tx, rows)` until it answers None: True. False: the time was up before, or a lock was not to be had.

    The cursor of each is its checkpoint, in the same transaction; `keep` is told it once that has committed. Raises the
    stop there is, between batches.
    """
    pace, waiting = Pace(), 0
    while budget.left():
        try:
            done, seconds = _one(attempt, batch, pace.rows)
        except DBAPIError as error:
            if not in_the_way(error):
                raise
            attempt.check()
            if _code(error) == _LOCKED:
                waiting += 1
                if waiting == _PATIENCE or not attempt.sleep(_PAUSE):
                    attempt.check()
                    return False
            elif not pace.too_long():
                raise
            continue
        waiting = 0
        if done is None:
            return True
        keep(done.cursor)
        pace.took(seconds, done.seen)
    return False


def _one(attempt: Attempt, batch: Batch, rows: int) -> tuple[Done | None, float]:
    with attempt.transaction() as tx:
        tx.execute(_BOUND, {"most": str(int(MOST_SECONDS * 1000))})
        began = time.monotonic()
        done = batch(tx, rows)
        seconds = time.monotonic() - began
        tx.execute(_UNBOUND)
        if done is not None:
            attempt.checkpoint(tx, done.cursor, processed=done.gone)
    return done, seconds


def in_the_way(error: DBAPIError) -> bool:
    """Whether a statement was ended because it took too long or waited too long; or because of a stop."""
    return _code(error) in (_CANCELLED, _LOCKED)


def _code(error: DBAPIError) -> str | None:
    code: str | None = getattr(error.orig, "pgcode", None)
    return code
