"""What one transaction of the scheduler fires: bounded, so that it is short however much is due."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.checked import Checks
from tenure.model.errors import TenureError
from tenure.model.executions import ExecutionState, Trigger
from tenure.model.recurrence import Due, Misfire, due
from tenure.model.recurrence.misfire import grace_of
from tenure.starting import Start, admitted, initiator_of, prepare
from tenure.store.due_schedules import Fired
from tenure.store.executions import Active
from tenure.store.schedules import Schedule

TASKS = 500  # in one transaction, but always one execution whole
SECONDS = (
    0.1  # s for what is due: far below what a beat's session may idle in a transaction, or nothing would ever fire
)
BROKEN_AGAIN = timedelta(minutes=5)  # a schedule that cannot be understood here may be, after an update
OVERLAPS = "the execution before it had not ended"


class Round:
    """Executions to be written, and when their schedules are due next. Pure but for what `checks` remembers."""

    def __init__(self, now: datetime, checks: Checks) -> None:
        self.starts: list[Start] = []
        self.fired: list[Fired] = []
        self._now = now
        self._checks = checks
        self._tasks = 0
        self._until = time.monotonic() + SECONDS

    @property
    def full(self) -> bool:
        """What is claimed beyond this is claimed again in the next transaction."""
        return bool(self.fired) and (self._tasks >= TASKS or time.monotonic() >= self._until)

    def add(self, one: Schedule, active: Active | None, *, refused: str | None = None) -> None:
        """Everything of one claimed schedule that is due, as far as there is room; `refused`: none of it can start."""
        steps = self._checks.of(one)
        plan, why = self._due(one)
        if refused or why:
            steps = refused or why or ""
        plan = self._portion(plan, 1 if isinstance(steps, str) else len(steps))
        if plan.skipped:
            self._missed(one, plan.skipped)
        catching_up = why is None and self._catches_up(one, plan)
        for due_at in plan.fire:
            state = admitted(one.spec.overlap, active, catching_up=catching_up)
            start = prepare(one, due_at, Trigger.DUE, initiator_of(one), state, steps)
            if state is ExecutionState.SKIPPED:
                start = start.refused(OVERLAPS, state)
            self.starts.append(start)
            self._tasks += len(start.tasks)
            active = _with(active, start)
        self.fired.append(Fired(one.id, plan.next_run_at, max(plan.fire, default=None), plan.skipped))

    def _due(self, one: Schedule) -> tuple[Due, str | None]:
        """What is due; of a schedule that is not understood here one occurrence, and why."""
        assert one.next_run_at is not None
        try:
            recurrence = one.spec.recurrence
            if recurrence is None:
                return Due((), 0, None), None
            policy = Misfire(one.spec.misfire)
            return due(recurrence, one.next_run_at, self._now, policy, one.spec.at_most or 1), None
        except Exception as error:
            # Whatever one schedule is, the others must fire.
            said = str(error) if isinstance(error, TenureError) else f"its recurrence raised {type(error).__name__}"
            return Due((one.next_run_at,), 0, self._now + BROKEN_AGAIN), said

    def _portion(self, plan: Due, steps: int) -> Due:
        room = max(1, (TASKS - self._tasks) // steps)
        return plan if len(plan.fire) <= room else replace(plan, fire=plan.fire[:room], next_run_at=plan.fire[room])

    def _catches_up(self, one: Schedule, plan: Due) -> bool:
        """Whether these were to be fired though they are late: then they wait for each other."""
        if one.spec.misfire != "all" or not plan.fire or (recurrence := one.spec.recurrence) is None:
            return False
        return len(plan.fire) > 1 or plan.fire[0] < self._now - grace_of(recurrence)

    def _missed(self, one: Schedule, skipped: int) -> None:
        """What nobody fired in time leaves one row: the first of them, saying how many they were."""
        assert one.next_run_at is not None
        state = ExecutionState.SKIPPED
        start = prepare(one, one.next_run_at, Trigger.DUE, initiator_of(one), state, "")
        said = f"missed: {skipped} not fired in time, by the policy {one.spec.misfire}"
        self.starts.append(start.refused(said, state))


def _with(active: Active | None, start: Start) -> Active | None:
    """What is active once this one has been written too."""
    one = start.execution
    if one.state is ExecutionState.RUNNING:
        return Active(one.id, active.waiting if active else None)
    if one.state is ExecutionState.WAITING:
        return Active(active.running if active else None, one.id)
    return active
