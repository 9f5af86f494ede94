"""One run of `platform.retention`: table after table, tasks before what outlives them, within one time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from tenure import plugins
from tenure.retention.batches import Budget, Done, drain
from tenure.retention.months import Months
from tenure.retention.progress import Cursor, Outcome
from tenure.store.retention import activities, cutoffs, executions, history, tasks, tombstones
from tenure.store.retention.pages import After, Page

if TYPE_CHECKING:
    from tenure.runtime.attempt import Attempt

# A domain's condition on a task {t} that keeps it, as SQL text; entry points of this group name such constants.
HOLDS = "tenure.retention"
Reading = Callable[[Connection, After, int], Page | None]


class Run:
    """The state of one attempt. `cursor` is what its last checkpoint says."""

    def __init__(self, attempt: Attempt, *, dry_run: bool) -> None:
        self.attempt = attempt
        self.dry_run = dry_run
        self.cursor = attempt.resume(Cursor())
        self.holds: tuple[str, ...] = tuple(condition for _, condition in plugins.loaded(HOLDS))
        self.waiting: list[str] = []
        self.seen = 0  # rows that the tables before this one had
        with attempt.connection() as connection:
            reading = connection.execution_options(isolation_level="AUTOCOMMIT")
            self.cutoffs = cutoffs.read(reading)
            self.budget = Budget.read(reading)

    def outcome(self) -> Outcome:
        """Run all that is left, and say what it came to. Raises the stop there is, between batches."""
        steps = [(table, step) for table, step in self._steps() if table not in self.cursor.done]
        self.attempt.begin(phases=[table for table, _ in steps])
        left = [table for table, step in steps if not self._step(table, step)]
        return Outcome(
            dry_run=self.dry_run, drained=not left, rows=self.cursor.rows, partitions=self.cursor.partitions, left=left,
            waiting=self.waiting,
        )  # fmt: skip

    def _step(self, table: str, step: Callable[[], bool]) -> bool:
        if not self.budget.left():
            return False
        self.attempt.phase(table)
        self.seen = self.attempt.counters.processed
        if not step():
            self.attempt.progress(message="not finished: the next run goes on")
            return False
        self.save(self.cursor.finished(table))
        return True

    def _steps(self) -> list[tuple[str, Callable[[], bool]]]:
        """Tables in their order. One that is kept for ever has nothing to do."""
        at, dry_run, holds = self.cutoffs, self.dry_run, self.holds
        walks: list[tuple[str, Reading]] = []
        if (stones := at.tombstones) is not None:
            walks.append(
                ("adopted_ids", lambda c, after, rows: tombstones.page(c, stones, after, rows, dry_run=dry_run))
            )
        if (ended := at.tasks) is not None:
            walks.append(
                ("tasks", lambda c, after, rows: tasks.page(c, ended, after, rows, dry_run=dry_run, holds=holds))
            )
            beside = ((executions, "executions", at.executions), (activities, "activities", at.activities))
            for noun, table, before in beside:
                if before is not None:
                    walks.append((table, partial(_beside, noun.page, before, ended, dry_run, holds)))
        steps: list[tuple[str, Callable[[], bool]]] = [
            (table, partial(self.walk, table, read)) for table, read in walks
        ]
        for parent, before in zip(history.PARENTS, (at.events, at.attempts, at.activities), strict=True):
            if before is not None:
                steps.append((parent, Months(self, parent, before).run))
        return steps

    def walk(self, table: str, reading: Reading) -> bool:
        """Page after page of one table, or of one partition of it. False: the time was up before its end."""

        def batch(tx: Connection, rows: int) -> Done | None:
            page = reading(tx, self.cursor.after, rows)
            if page is None:
                return None
            return Done(page.seen, page.gone, self.cursor.walked(table, page, owner=table == "activities"))

        return drain(self.attempt, self.budget, batch, self.keep)

    def keep(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.attempt.progress(self.attempt.counters.processed - self.seen)

    def save(self, cursor: Cursor, *, processed: int = 0) -> None:
        """A checkpoint by itself."""
        with self.attempt.transaction() as tx:
            self.attempt.checkpoint(tx, cursor, processed=processed)
        self.cursor = cursor


def _beside(
    page: Callable[..., Page | None], before: datetime, tasks_before: datetime, dry_run: bool, holds: tuple[str, ...],
    connection: Connection, after: After, rows: int,
) -> Page | None:  # fmt: skip
    """A page of what is kept as long as a task of it is."""
    return page(connection, before, after, rows, tasks=tasks_before, dry_run=dry_run, holds=holds)
