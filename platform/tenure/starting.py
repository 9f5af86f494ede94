"""What an execution starts with: its row, its plan, and all its tasks, checked before anything is written.

A step that cannot be submitted makes the execution `failed` with the reason; nothing of it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import Connection
from uuid_utils.compat import uuid7

from tenure.batch import limit_key, limit_reached
from tenure.checked import CheckedStep
from tenure.model.executions import ExecutionState, PlanStep, Trigger
from tenure.model.kinds import KindSpec
from tenure.model.records import Initiator
from tenure.store import executions
from tenure.store.executions import Active, NewExecution
from tenure.store.schedules import Schedule
from tenure.store.transitions import submit as submitting
from tenure.store.transitions.steps import StepTask, submit_steps


@dataclass(frozen=True)
class Start:
    """An execution to be, with the spec of each of its tasks."""

    execution: NewExecution
    tasks: tuple[tuple[KindSpec, StepTask], ...] = ()

    def refused(self, reason: str, state: ExecutionState = ExecutionState.FAILED) -> Start:
        """The same as one that never starts."""
        return Start(replace(self.execution, state=state, plan=(), reason=reason))


def initiator_of(schedule: Schedule) -> Initiator:
    """Who asks when nobody did: the schedule itself."""
    return Initiator("schedule", str(schedule.id), schedule.name)


def admitted(overlap: str, active: Active | None, *, catching_up: bool = False) -> ExecutionState:
    """How a new execution starts beside what of its schedule has not ended: at once, waiting, or not at all.

    When several are caught up they wait for each other, however many: to leave some out was the misfire policy's to say.
    """
    if active is None or overlap == "allow":
        return ExecutionState.RUNNING
    if catching_up or (overlap == "queue_one" and active.waiting is None):
        return ExecutionState.WAITING
    return ExecutionState.SKIPPED


def prepare(
    schedule: Schedule,
    due_at: datetime,
    trigger: Trigger,
    initiator: Initiator,
    state: ExecutionState,
    steps: Sequence[CheckedStep] | str,
) -> Start:
    """An execution of this schedule as it is now; `failed` where its steps cannot be submitted: then `steps` says why."""
    execution = NewExecution(
        UUID(bytes=uuid7().bytes), schedule.id, schedule.name, trigger, due_at, state, (), initiator
    )
    start = Start(execution)
    if state is ExecutionState.SKIPPED:
        return start
    if isinstance(steps, str):
        return start.refused(steps)
    tasks = tuple((step.spec, _task(execution, step)) for step in steps)
    return Start(replace(execution, plan=_plan(schedule, [task for _, task in tasks])), tasks)


def _plan(schedule: Schedule, tasks: Sequence[StepTask]) -> list[list[PlanStep]]:
    """Which task is which step, and what its failure means: the step's own word, else the schedule's."""
    spec, left = schedule.spec, iter(tasks)
    return [
        [_planned(spec.on_failure if step.on_failure == "inherit" else step.on_failure, next(left)) for step in group]
        for group in spec.steps
    ]


def _planned(on_failure: Literal["stop", "continue"], task: StepTask) -> PlanStep:
    return PlanStep(task.id, task.kind, on_failure, task.deadline)


def _task(execution: NewExecution, checked: CheckedStep) -> StepTask:
    spec, step = checked.spec, checked.step
    return StepTask(
        id=UUID(bytes=uuid7().bytes),
        execution_id=execution.id,
        group_index=checked.group_index,
        kind=spec.name,
        queue=step.queue or spec.queue,
        priority=spec.priority if step.priority is None else step.priority,
        params=checked.body,
        params_version=spec.version,
        request_hash=checked.digest,
        submitter=f"schedule {execution.schedule_name}",
        initiator=execution.initiator,
        context=f"schedule {execution.schedule_name}, group {checked.group_index + 1}",
        labels=step.labels,
        scope=spec.scope if step.scope is None else step.scope,
        exclusive=spec.exclusive if step.exclusive is None else step.exclusive,
        run_limit=spec.run_limit,
        deadline=step.deadline,
        max_attempts=spec.max_attempts,
        on_lost=spec.on_lost,
        keep_params=spec.keep_params is not None,
        plans=spec.plans,
        waiting=execution.state is not ExecutionState.RUNNING or checked.group_index > 0,
    )


def write(connection: Connection, starts: Sequence[Start]) -> set[UUID]:
    """Write executions with all their tasks; the ids of those made. The others' due time has an execution already."""
    made = executions.insert(connection, [start.execution for start in starts])
    submit_steps(connection, [task for start in starts if start.execution.id in made for _, task in start.tasks])
    return made


def within_limits(connection: Connection, starts: Sequence[Start]) -> Sequence[Start]:
    """Kinds may declare how many tasks of one submitter are active: what exceeds that is `failed`. Before `write`, in
    its transaction: what was counted stays true until then."""
    limited = {
        limit_key(spec, task.submitter): (spec, task.submitter)
        for start in starts
        for spec, task in start.tasks
        if spec.active_limit is not None
    }
    if not limited:
        return starts
    submitting.lock_limits(connection, list(limited))
    counts = Counter(
        {key: submitting.active_count(connection, spec.names, submitter) for key, (spec, submitter) in limited.items()}
    )
    checked: list[Start] = []
    for start in starts:
        wanted = Counter(limit_key(spec, task.submitter) for spec, task in start.tasks if spec.active_limit is not None)
        over = [limited[key][0] for key, n in wanted.items() if counts[key] + n > (limited[key][0].active_limit or 0)]
        if over:
            checked.append(start.refused(limit_reached(over[0])))
        else:
            counts.update(wanted)
            checked.append(start)
    return checked
