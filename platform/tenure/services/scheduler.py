"""The scheduler: fires what is due. Any number of them, none leads: a due row is claimed by whoever comes first.

One transaction claims due schedules, writes their executions with all tasks, and says when they are due next. A replica
that dies or freezes in it has done nothing: the server ends its session, and the next one claims the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from uuid import UUID

import structlog
from sqlalchemy.exc import DBAPIError

from tenure.checked import Checks
from tenure.model.executions import ExecutionState
from tenure.registry import Registry
from tenure.runtime.service import passing
from tenure.services.firing import Round
from tenure.settings import Settings
from tenure.starting import Start, within_limits, write
from tenure.store import due_schedules, executions
from tenure.store.sessions import Sessions

BATCH = 50  # schedules claimed in one transaction
IDLE = 0.5  # s between looks: a new or changed schedule is seen within that
HELD = 0.05  # s until another look at due rows that another replica holds
REFUSED = "the database refused to write it: see the log of beat"


class Scheduler:
    """One round fires everything that is due, and answers how long nothing will be."""

    name = "scheduler"

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        *,
        options: str = "-c lock_timeout=1000 -c idle_in_transaction_session_timeout=500",
        started: Callable[[str, float], None] | None = None,
    ) -> None:
        """`started` is told the state of each new execution and how late it is (s)."""
        self._checks = Checks(registry, settings.params_bytes)
        self._started = started or (lambda _state, _late: None)
        self._sessions = Sessions(settings.session_url, application="tenure scheduler", options=options)
        self._log = structlog.get_logger("tenure.scheduler")

    def run_once(self) -> float:
        with self._sessions.look() as connection:
            left = due_schedules.seconds_to_next(connection)
        if left is None:
            return IDLE
        if left > 0:
            return min(left, IDLE)
        return 0.0 if self._fire_all() else HELD

    def _fire_all(self) -> int:
        try:
            return self._fire(BATCH)
        except DBAPIError as error:
            if passing(error):
                raise
            self._log.error("batch_refused", error=type(error).__name__)
        return self._fire_singly()

    def _fire_singly(self) -> int:
        """One of them cannot be written: one at a time, so that it holds up no other, and is said to have failed.

        It by its id: another replica may have it by then, and what is claimed instead is as good as any.
        """
        refused: set[UUID] = set()
        count = 0
        while count < BATCH:
            claimed: list[UUID] = []
            try:
                done = self._fire(1, refused=refused, claimed=claimed)
            except DBAPIError as error:
                if passing(error) or refused.issuperset(claimed):
                    raise
                refused.update(claimed)
                continue
            if not done:
                break
            count += done
        return count

    def _fire(self, room: int, *, refused: Collection[UUID] = (), claimed: list[UUID] | None = None) -> int:
        """One transaction; how many schedules it dealt with. `claimed` is told which, also of one that fails."""
        with self._sessions.transaction() as connection:
            got = due_schedules.claim_due(connection, room)
            if got is None:
                return 0
            now, due = got
            if claimed is not None:
                claimed += [one.id for one in due]
            active = executions.active(connection, [one.id for one in due])
            found = Round(now, self._checks)
            for one in due:
                if not found.full:
                    found.add(one, active.get(one.id), refused=REFUSED if one.id in refused else None)
            starts = within_limits(connection, found.starts)
            made = write(connection, starts)
            due_schedules.fired(connection, found.fired)
        self._tell(starts, made, now)
        return len(found.fired)

    def _tell(self, starts: Sequence[Start], made: set[UUID], now: datetime) -> None:
        for start in starts:
            one = start.execution
            if one.id not in made:
                self._log.error("occurrence_known", schedule=one.schedule_name, due_at=one.due_at.isoformat())
                continue
            late = (now - one.due_at).total_seconds()
            self._started(one.state, late)
            if one.state in (ExecutionState.FAILED, ExecutionState.SKIPPED):
                self._log.warning("not_started", schedule=one.schedule_name, state=one.state, reason=one.reason)
            else:
                self._log.info("started", schedule=one.schedule_name, execution_id=str(one.id), late=round(late, 3))

    def close(self) -> None:
        self._sessions.dispose()
