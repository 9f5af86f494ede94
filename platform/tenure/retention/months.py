"""History: whole partitions first, then the rows that no partition takes with it.

Detaching beside everybody else cannot be part of a transaction, so it is no part of the checkpoint's either: what was
begun is marked in the database, and whoever comes next goes on with it. The drop is fenced, and counted, like any batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from tenure.retention.batches import Done, drain, in_the_way
from tenure.retention.pace import Pace
from tenure.store.advisory import PARTITIONING
from tenure.store.retention import history
from tenure.store.retention.history import Partition

if TYPE_CHECKING:
    from tenure.retention.run import Run

_WAIT: Final = "200ms"
_TRIES: Final = 5
_PAUSE: Final = 0.5  # s between tries: the transaction in the way may end
_LOCK = text("select pg_try_advisory_lock(:key)")
_UNLOCK = text("select pg_advisory_unlock(:key)")
_KEPT = text("select cast(:kept as timestamptz)")


class Months:
    """One parent table of history in one run."""

    def __init__(self, run: Run, parent: str, before: datetime) -> None:
        self._run = run
        self._parent = parent
        self._before = before

    def run(self) -> bool:
        """False: there is more to do, for want of time or because a transaction was in the way."""
        with self._run.attempt.connection() as connection:
            here = connection.execution_options(isolation_level="AUTOCOMMIT")
            whole_before = self._whole_before(here)
            done = self._count_all(here, whole_before) if self._run.dry_run else self._drop(here, whole_before)
            rest = history.partitions(here, self._parent)
        rest = [month for month in rest if month.high > whole_before and self._by_rows(month)]
        return all([done, *(self._rows(month) for month in rest)])

    def _whole_before(self, connection: Connection) -> datetime:
        before = history.droppable_before(connection, self._parent, self._before)
        kept = self._run.cursor.kept_since
        if self._parent != "activity_items" or kept is None:
            return before
        since: datetime = connection.execute(_KEPT, {"kept": kept}).scalar_one()
        return min(before, since)

    def _by_rows(self, month: Partition) -> bool:
        """A month that is not due as a whole: an age of less than one, or something of it is still needed."""
        if month.low >= self._before:
            return False
        return self._parent in self._run.cutoffs.exact or month.high <= self._before

    def _rows(self, month: Partition) -> bool:
        run = self._run
        if month.name < run.cursor.part:
            return True  # an earlier attempt was through with it
        if month.name != run.cursor.part:
            run.save(run.cursor.within(month.name))
        reading = partial(
            history.page, parent=self._parent, name=month.name, before=self._before, tasks=run.cutoffs.tasks,
            dry_run=run.dry_run, holds=run.holds,
        )  # fmt: skip
        return run.walk(self._parent, lambda connection, after, rows: reading(connection, after=after, rows=rows))

    # -- whole partitions ------------------------------------------------------------------------------------------

    def _whole(self, connection: Connection, before: datetime) -> list[str]:
        return [month.name for month in history.partitions(connection, self._parent) if month.high <= before]

    def _count_all(self, connection: Connection, before: datetime) -> bool:
        names = [mark.name for mark in history.marked(connection, self._parent)]
        for name in [*names, *self._whole(connection, before)]:
            if name > self._run.cursor.part:
                rows = self._counted(connection, name)
                if rows is None:
                    return False
                now = self._run.cursor.counted(self._parent, rows, 1).within(name)
                self._run.save(now, processed=rows)
        return True

    def _drop(self, connection: Connection, before: datetime) -> bool:
        if not self._whole(connection, before) and not history.marked(connection, self._parent):
            return True
        with _alone(connection) as alone:
            if not alone:
                self._run.waiting.append(self._parent)
                return False
            # What was begun before comes first: while one is half detached, no other can be.
            if not self._finish(connection):
                return False
            for name in self._whole(connection, before):
                history.mark(connection, name)
                # Cut off half way it is pending, and for finishing, not for another detaching.
                detached = self._patiently(partial(history.detach, connection, self._parent, name), tries=1)
                if not self._finish(connection):
                    return False
                if not detached and name in self._whole(connection, before):
                    self._run.waiting.append(name)
                    return False
        return True

    def _finish(self, connection: Connection) -> bool:
        """Count and drop what is marked. False: something is in the way, or the time is up."""
        for mark in history.marked(connection, self._parent):
            if mark.pending and not self._patiently(
                partial(history.finish_detaching, connection, self._parent, mark.name)
            ):
                self._run.waiting.append(mark.name)
                return False
            rows = self._counted(connection, mark.name)
            if rows is None or not self._drop_one(mark.name, rows):
                return False
        return True

    def _drop_one(self, name: str, rows: int) -> bool:
        dropped: list[bool] = []

        def batch(tx: Connection, _: int) -> Done | None:
            if dropped or not history.drop(tx, name):
                return None
            return Done(1, rows, self._run.cursor.counted(self._parent, rows, 1))

        def keep(cursor: object) -> None:
            dropped.append(True)
            self._run.keep(cursor)  # type: ignore[arg-type]

        if drain(self._run.attempt, self._run.budget, batch, keep):
            return True
        self._run.waiting.append(name)  # a reader has it open, or the time was up: the next run comes again
        return False

    def _counted(self, connection: Connection, name: str) -> int | None:
        """The rows of a partition, some blocks at a time; None: the time is up."""
        pace, rows, low, end = Pace(1_000), 0, 0, history.blocks(connection, name)
        while low < end:
            self._run.attempt.check()
            if not self._run.budget.left():
                return None
            began = time.monotonic()
            rows += history.count(connection, name, low, low + pace.rows)
            low += pace.rows
            pace.took(time.monotonic() - began, pace.rows)
        return rows

    def _patiently(self, step: partial[None], tries: int = _TRIES) -> bool:
        """Try a few times; False: a transaction is in the way."""
        for attempt in range(tries):
            try:
                step()
            except DBAPIError as error:
                self._run.attempt.check()
                if not in_the_way(error):
                    raise
                if attempt + 1 < tries and not self._run.attempt.sleep(_PAUSE):
                    self._run.attempt.check()
            else:
                return True
        return False


@contextmanager
def _alone(connection: Connection) -> Iterator[bool]:
    """Whether nobody else makes or drops partitions until the block is left; nothing here waits long for a lock."""
    if not connection.execute(_LOCK, {"key": PARTITIONING}).scalar_one():
        yield False
        return
    try:
        connection.execute(text(f"set lock_timeout = '{_WAIT}'"))
        yield True
    finally:
        try:
            connection.execute(text("reset lock_timeout"))
            connection.execute(_UNLOCK, {"key": PARTITIONING})
        except DBAPIError:
            connection.invalidate()  # the lock goes with the session
