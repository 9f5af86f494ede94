"""The scheduler: fires what is due. Any number of them, none leads: a due row is claimed by whoever comes first.

One transaction claims due schedules, writes their executions with all tasks, and says when they are due next. A replica
that dies or freezes in it has done nothing: the server ends its session, and the next one claims the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy.exc import DBAPIError

from tenure.model.errors import TenureError
from tenure.model.executions import ExecutionState, Trigger
from tenure.model.recurrence import Due, Misfire, due
from tenure.registry import Registry
from tenure.runtime.service import passing
from tenure.settings import Settings
from tenure.starting import Start, admitted, initiator_of, prepare, write
from tenure.store import executions, schedules
from tenure.store.executions import Active
from tenure.store.schedules import Fired, Schedule
from tenure.store.sessions import Sessions

BATCH = 50  # schedules in one transaction: it must be short, or a death in it would be dear
IDLE = 0.5  # s between looks: a new or changed schedule is seen within that
HELD = 0.05  # s until another look at due rows that another replica holds
BROKEN_AGAIN = timedelta(minutes=5)  # a schedule that cannot be understood here may be, after an update


@dataclass
class Round:
    """What one transaction fires."""

    starts: list[Start] = field(default_factory=list)
    fired: list[Fired] = field(default_factory=list)


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
        self._settings = settings
        self._registry = registry
        self._started = started or (lambda _state, _late: None)
        self._sessions = Sessions(settings.session_url, application="tenure scheduler", options=options)
        self._log = structlog.get_logger("tenure.scheduler")

    def run_once(self) -> float:
        with self._sessions.look() as connection:
            left = schedules.seconds_to_next(connection)
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
        # One of them cannot be written: one at a time, so that it holds up no other.
        count = 0
        while count < BATCH and self._fire_one():
            count += 1
        return count

    def _fire_one(self) -> int:
        try:
            return self._fire(1)
        except DBAPIError as error:
            if passing(error):
                raise
            return self._fire(1, refused="the database refused to write it; beat's log has the error")

    def _fire(self, room: int, *, refused: str | None = None) -> int:
        with self._sessions.transaction() as connection:
            got = schedules.claim_due(connection, room)
            if got is None:
                return 0
            now, claimed = got
            active = executions.active(connection, [one.id for one in claimed])
            found = Round()
            for one in claimed:
                self._add(found, one, now, active.get(one.id), refused)
            made = write(connection, found.starts)
            schedules.fired(connection, found.fired)
        self._tell(found, made, now)
        return len(claimed)

    def _add(self, found: Round, one: Schedule, now: datetime, active: Active | None, refused: str | None) -> None:
        assert one.next_run_at is not None
        try:
            plan = self._due(one, now)
        except TenureError as error:
            refused = str(error)
            plan = Due((one.next_run_at,), 0, now + BROKEN_AGAIN)
        if plan.skipped:
            found.starts.append(self._missed(one, plan.skipped))
        catching_up = one.spec.misfire == "all" and len(plan.fire) > 1
        for due_at in plan.fire:
            state = admitted(one.spec.overlap, active, catching_up=catching_up)
            start = self._prepare(one, due_at, state)
            if state is ExecutionState.SKIPPED:
                start = start.refused("the execution before it had not ended", state)
            elif refused is not None:
                start = start.refused(refused)
            found.starts.append(start)
            active = _with(active, start)
        last = max(plan.fire, default=None)
        found.fired.append(Fired(one.id, plan.next_run_at, last, plan.skipped))

    def _due(self, one: Schedule, now: datetime) -> Due:
        recurrence = one.spec.recurrence
        assert one.next_run_at is not None
        if recurrence is None:
            return Due((), 0, None)
        return due(recurrence, one.next_run_at, now, Misfire(one.spec.misfire), one.spec.at_most or 1)

    def _prepare(self, one: Schedule, due_at: datetime, state: ExecutionState) -> Start:
        return prepare(
            one, due_at, Trigger.DUE, initiator_of(one), state,
            registry=self._registry, params_bytes=self._settings.params_bytes,
        )  # fmt: skip

    def _missed(self, one: Schedule, skipped: int) -> Start:
        """What nobody fired in time leaves one row: the first of them, saying how many they were."""
        assert one.next_run_at is not None
        start = self._prepare(one, one.next_run_at, ExecutionState.SKIPPED)
        return start.refused(
            f"missed: {skipped} not fired in time, by the policy {one.spec.misfire}", ExecutionState.SKIPPED
        )

    def _tell(self, found: Round, made: set[UUID], now: datetime) -> None:
        for start in found.starts:
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


def _with(active: Active | None, start: Start) -> Active | None:
    """What is active once this one has been written too."""
    one = start.execution
    if one.state is ExecutionState.RUNNING:
        return Active(one.id, active.waiting if active else None)
    if one.state is ExecutionState.WAITING:
        return Active(active.running if active else None, one.id)
    return active
