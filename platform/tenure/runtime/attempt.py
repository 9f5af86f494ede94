"""What a kind's body is given: one attempt at one task, from its claim to its end.

Every write goes through the lease's fence; there is no unfenced variant to call by mistake. A Watcher as well: `sleep`
and `Backoff.wait(attempt)` answer False at a stop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection, text

from tenure.model.errors import InvalidCheckpoint
from tenure.model.items import Item
from tenure.model.kinds import KindSpec
from tenure.model.records import Claimed, Lease
from tenure.model.stops import Cause, LeaseLost, ShuttingDown, Stop, stop_for
from tenure.runtime.connections import Connections
from tenure.runtime.phases import Narrator, Opened, Story
from tenure.runtime.recorded import Recorded
from tenure.runtime.seat import Seat
from tenure.runtime.shutdown import Watcher
from tenure.store import checkpoints, leases
from tenure.store.hot import HotSession
from tenure.store.transitions import activities

Cursor = TypeVar("Cursor", bound=BaseModel)


class Attempt:
    """One attempt. `task_id`, `token`, `number` and `spec` may be read; the rest is methods."""

    def __init__(
        self,
        claimed: Claimed,
        spec: KindSpec,
        *,
        session: HotSession,
        connections: Connections,
        seat: Seat,
        shutdown: Watcher,
        narrator: Narrator,
    ) -> None:
        self._claimed = claimed
        self.spec = spec
        self._session = session
        self._connections = connections
        self._seat = seat
        self._shutdown = shutdown
        self._sequence = claimed.sequence
        self._counters: checkpoints.Counters | None = None
        self._total: int | None = None
        self._main: Connection | None = None
        # (sequence, counters) of checkpoints in the open transaction: they count once it has committed.
        self._written: tuple[int, checkpoints.Counters] | None = None
        self._recorded = Recorded(claimed, spec, connections.owns)
        connections.fence = self._fenced
        self._story = Story(claimed, narrator, self.is_running)
        self._shutdown_seen: float | None = None
        self._woken = threading.Event()
        self.summary: str | None = None

    @property
    def lease(self) -> Lease:
        return self._claimed.lease

    @property
    def task_id(self) -> UUID:
        return self._claimed.lease.task_id

    @property
    def token(self) -> int:
        return self._claimed.lease.token

    @property
    def number(self) -> int:
        """1 for the first attempt."""
        return self._claimed.attempt

    @property
    def counters(self) -> checkpoints.Counters:
        """Committed so far, over all attempts."""
        if self._counters is None:
            if self._sequence == 0:
                self._counters = checkpoints.Counters()
            else:
                with self._reading() as connection:
                    self._counters = checkpoints.counters(connection, self.lease)
        return self._counters

    @property
    def has_a_say(self) -> bool:
        """Whether something may have been left, by this attempt or an earlier one, that decides what its return means."""
        return self._recorded.any or self._claimed.sequence > 0 or self.counters.failed > 0

    # -- stops -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise the stop there is, if any. Only stops: it reads no database."""
        self._seat.check_trust()
        if stop := self.pending():
            raise stop

    def pending(self) -> Stop | None:
        """The stop there is to obey, lost trust apart."""
        cause = self._seat.stop_cause()
        if cause and cause != Cause.SHUTDOWN:
            return stop_for(cause)
        if (cause or not self._shutdown.is_running()) and not self._draining():
            return ShuttingDown()
        return None

    def _draining(self) -> bool:
        """Whether a kind that finishes on shutdown still has time to."""
        now = time.monotonic()
        self._shutdown_seen = self._shutdown_seen or now
        return self.spec.on_shutdown == "finish" and now - self._shutdown_seen < self.spec.drain

    def is_running(self) -> bool:
        """False once there is a stop to obey."""
        return self._seat.trusted() and self.pending() is None

    def sleep(self, seconds: float) -> bool:
        """True when the full time passed, False as soon as there is a stop."""
        end = time.monotonic() + seconds
        while self.is_running():
            left = end - time.monotonic()
            if left <= 0:
                return True
            # The control thread wakes us; the bound covers trust that runs out without a word from anybody.
            if self._woken.wait(min(left, 0.5)):
                self._woken.clear()
        return False

    def wake(self) -> None:
        """Look again whether to stop; called by the control thread."""
        self._woken.set()

    # -- work ------------------------------------------------------------------------------------------------------

    def resume(self, fresh: Cursor) -> Cursor:
        """The last committed cursor, or `fresh` for a task that has none."""
        return fresh if self._claimed.cursor is None else type(fresh).model_validate_json(self._claimed.cursor)

    def begin(self, *, total: int | None = None, phases: Sequence[str] = ()) -> None:
        """Say how much there is to do; ends the plan step of a kind that has one. The total goes with the next checkpoint.

        `phases` are those to come, in order; `import/users` is one within `import`. They can be seen from here on.
        """
        self._total = total
        if self.spec.plans and not self._session.begin(self.lease):
            raise LeaseLost()
        self._story.declare(phases)

    def phase(self, name: str, *, total: int | None = None, message: str | None = None) -> Opened:
        """Go on to this phase: the one before it is completed. In a `with` it ends with the block.

        One that was not declared is added. Like `progress` it is narration: it waits for no database and never fails a
        run; an audience sees it within a second.
        """
        return self._story.open(name, total, message)

    def progress(self, done: int | None = None, *, total: int | None = None, message: str | None = None) -> None:
        """How far the current phase is: `done` of `total`, in whatever it counts. Costs next to nothing."""
        self._story.progress(done, total, message)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Effects and checkpoint commit together, fenced; leaving the block commits, then raises a pending stop.

        The lease is read unlocked at entry (a lock there would hold up every renewal) and locked as the last
        statement before COMMIT. LeaseLost: rolled back, nothing was written.
        """
        connection = self._connection()
        self._written = None
        try:
            with connection.begin():
                if not leases.live(connection, self.lease):
                    raise LeaseLost()
                yield connection
            if self._written is not None:
                self._sequence, self._counters = self._written
        finally:
            self._written = None
        self.check()

    def _fenced(self, connection: Connection) -> None:
        """The fence of every COMMIT on this attempt's connections, also of one the body asks for itself."""
        self._recorded.check(connection)
        if not leases.fence(connection, self.lease):
            raise LeaseLost()

    def checkpoint(self, tx: Connection, cursor: Cursor, *, processed: int = 0, failed: int = 0) -> Cursor:
        """Write the cursor and what this page adds to the counters, in the page's transaction. Answers the cursor."""
        page = checkpoints.Page(
            cursor.model_dump_json(),
            processed=processed,
            succeeded=processed - failed,
            failed=failed,
            total=self._total,
        )
        expected = self._written[0] if self._written else self._sequence
        saved = checkpoints.save(tx, self.lease, expected, page)
        if saved is None:
            saved = self._save_after_rollback(tx, page)
        self._written = saved
        self._recorded.saved(tx)
        # Committed by hand the transaction tells us nothing: what is read later comes from the database.
        self._sequence, self._counters = (self._sequence, self._counters) if tx is self._main else (saved[0], None)
        return cursor

    def _save_after_rollback(self, tx: Connection, page: checkpoints.Page) -> tuple[int, checkpoints.Counters]:
        """A savepoint was rolled back, or the body committed by itself: the database knows the sequence, we do not."""
        if not leases.live(tx, self.lease):
            raise LeaseLost()
        found = checkpoints.sequence(tx, self.lease)
        saved = checkpoints.save(tx, self.lease, found, page)
        if saved is None:
            raise InvalidCheckpoint(f"{self.spec.name}: call attempt.begin() before the first checkpoint")
        return saved

    def items(self, tx: Connection, items: Iterable[Item]) -> int:
        """What became of single objects, in the page's transaction, with its checkpoint; how many were written.

        None for an object that did not change. What the items say decides how the task ends: all in error, it failed;
        an unhandled error or a handled one, it partially succeeded. Raises UsageError naming the item that is wrong.
        """
        return self._recorded.items(tx, items)

    def items_from(
        self, tx: Connection, columns: Sequence[str], select: str, values: Mapping[str, Any] | None = None
    ) -> int:
        """`items` for what a query finds: one item for each row of `select`, whose columns are named by `columns` (change,
        object_type, object_id, object_name, error_code, error_message, unhandled, snapshot, outcomes)."""
        return self._recorded.items_from(tx, columns, select, values or {})

    def count(self, tx: Connection, **changes: int) -> None:
        """How many objects of this page changed without leaving an item, by change: `count(tx, updated=480)`."""
        self._recorded.count(tx, changes)

    def warn(self, message: str) -> None:
        """Say on the activity that something went otherwise than wanted, at once; a run without errors then ends
        `complete_with_warning`, and its task succeeds. Words that everybody may read; said twice it stands once."""
        with self._apart() as connection, connection.begin():
            if not activities.warn_as(connection, self.lease, self._claimed.activity_id, message):
                raise LeaseLost()

    def fence(self) -> None:
        """Call before an effect outside PostgreSQL. Raises LeaseLost, or a pending stop."""
        self.check()
        with self._reading() as connection:
            if not leases.live(connection, self.lease):
                raise LeaseLost()

    def mark(self, statement: str, values: dict[str, Any] | None = None) -> int:
        """One fenced statement, committed at once, also from within `transaction()`; its row count."""
        with self._apart() as connection, connection.begin():
            return connection.execute(text(statement), values or {}).rowcount

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Another connection of this attempt; a stop cancels the SQL it is in. Commit is the body's, and fenced.

        In AUTOCOMMIT there is no COMMIT to fence: use that for reading only.
        """
        with self._connections.registered() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """For a look at the database: in the open transaction, if the body is in one, without ending it."""
        connection = self._connection()
        if connection.in_transaction():
            yield connection
        else:
            with connection.begin() as reading:
                yield connection
                reading.rollback()  # nothing was written, so nothing has to be fenced

    @contextmanager
    def _apart(self) -> Iterator[Connection]:
        """A connection that is in no transaction."""
        if self._connection().in_transaction():
            with self.connection() as another:
                yield another
        else:
            yield self._connection()

    def _connection(self) -> Connection:
        if self._main is None:
            self._main = self._connections.open()
        return self._main

    def close(self) -> None:
        """Give the attempt's connections back; called by the executor, before the end is written."""
        self._main = None
        self._connections.close_all()
        self._story.end()
