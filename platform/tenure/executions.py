"""Executions by hand: run a schedule now, backfill a range, cancel; in the caller's own transaction.

Whoever starts an execution holds the schedule's row until the commit, so that overlap is judged one at a time; beats
pass over the row meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from tenure import registry, settings
from tenure.caller import AnyConnection, connection_of
from tenure.checked import CheckedStep, Checks
from tenure.model import requests
from tenure.model.errors import (
    NoSuchExecution,
    NoSuchSchedule,
    Refused,
    ScheduleOverlaps,
    TooLate,
    UsageError,
    shortened,
)
from tenure.model.executions import UNFINISHED, ExecutionState, Trigger
from tenure.model.records import Initiator
from tenure.model.recurrence import occurrences
from tenure.starting import Start, admitted, prepare, within_limits, write
from tenure.store import execution_reads as reads
from tenure.store import executions
from tenure.store import schedules as store
from tenure.store.schedules import Schedule
from tenure.store.transitions import cancel as cancelling

BACKFILL = 1000  # occurrences in one call


def run_now(connection: AnyConnection, name: str, *, initiator: Initiator) -> UUID:
    """Start an execution by hand, also of a disabled or paused schedule; its id. The overlap policy holds here too.

    Raises NoSuchSchedule, ScheduleOverlaps, and what a step that cannot be submitted raises as Refused.
    """
    requests.check_initiator(initiator)
    database = connection_of(connection)
    found = held(database, name)
    active = executions.active(database, [found.id]).get(found.id)
    state = admitted(found.spec.overlap, active)
    if state is ExecutionState.SKIPPED:
        assert active is not None
        raise ScheduleOverlaps(
            f"execution {active.waiting or active.running} of schedule {name} has not ended: wait for it, or cancel it"
        )
    start = prepare(found, store.now(database), Trigger.MANUAL, initiator, state, _steps(found))
    _write(database, found, [start])
    return start.execution.id


def backfill(
    connection: AnyConnection, name: str, start: datetime, end: datetime, *, initiator: Initiator
) -> list[UUID]:
    """Run the occurrences from `start` to `end` (not included) that have not been run; their executions, oldest first.
    They run one after another unless the schedule allows overlap.

    Raises NoSuchSchedule; UsageError for a schedule without recurrence, a range that ends in the future, or one of more
    than BACKFILL occurrences; Refused for steps that cannot be submitted.
    """
    requests.check_initiator(initiator)
    requests.check_times(start=start, end=end)
    database = connection_of(connection)
    found = held(database, name)
    now = store.now(database)
    moments = _moments(found, start, end, now)
    known = executions.known(database, found.id, moments)
    active = executions.active(database, [found.id]).get(found.id)
    starts, steps = list[Start](), _steps(found)
    for moment in moments:
        if moment in known:
            continue
        state = admitted(found.spec.overlap, active, catching_up=True)
        starts.append(prepare(found, moment, Trigger.BACKFILL, initiator, state, steps))
        active = active or executions.Active(starts[-1].execution.id, None)
    made = _write(database, found, starts)
    return [one.execution.id for one in starts if one.execution.id in made]


def _moments(found: Schedule, start: datetime, end: datetime, now: datetime) -> list[datetime]:
    recurrence = found.spec.recurrence
    if recurrence is None:
        raise UsageError(f"schedule {found.name} is run by hand: it has no occurrences to run again")
    if end > now:
        raise UsageError(f"end {end.isoformat()} lies ahead: what is to come fires by itself")
    if not start < end:
        raise UsageError("start must lie before end")
    moments: list[datetime] = []
    for moment in occurrences(recurrence, start, end, anchor=found.next_run_at or found.anchor):
        if len(moments) == BACKFILL:
            raise UsageError(f"that range has more than {BACKFILL} occurrences: take a shorter one")
        moments.append(moment)
    return moments


def cancel_execution(
    connection: AnyConnection, execution_id: UUID, *, initiator: Initiator, reason: str | None = None
) -> ExecutionState:
    """Ask an execution and all its tasks to stop; its state now. Waiting tasks end at once, running ones at their next
    safe point, and the execution when all have. Twice is harmless.

    Raises NoSuchExecution, and TooLate for one that has ended otherwise.
    """
    requests.check_initiator(initiator)
    requests.check_text(reason=reason)
    database = connection_of(connection)
    task_ids = executions.ask_cancel(database, execution_id, by=str(initiator))
    if task_ids is None:
        return _known_state(database, execution_id)
    for task_id in task_ids:
        cancelling.request(database, task_id, asked_by=str(initiator), reason=reason)
    return ExecutionState.CANCELLING


def _known_state(database: Connection, execution_id: UUID) -> ExecutionState:
    found = executions.lock(database, execution_id)
    if found is None:
        raise NoSuchExecution(f"no execution {execution_id}")
    if found.state not in UNFINISHED and found.state is not ExecutionState.CANCELLED:
        raise TooLate(f"execution {execution_id} has already ended: {found.state}")
    return found.state


def execution(connection: AnyConnection, execution_id: UUID) -> dict[str, Any]:
    """One execution: execution_id, schedule_name, due_at, trigger, state, reason, group_index, groups, tasks[], times.
    Raises NoSuchExecution."""
    found = reads.one(connection_of(connection), execution_id)
    if found is None:
        raise NoSuchExecution(f"no execution {execution_id}")
    return found


def held(database: Connection, name: str) -> Schedule:
    """The schedule, its row held until the transaction ends. Raises NoSuchSchedule."""
    found = store.by_name(database, name, locked=True)
    if found is None:
        raise NoSuchSchedule(no_such(name))
    return found


def no_such(name: str) -> str:
    """What to say of an unknown schedule."""
    return f"no schedule {shortened(name)!r} that could be changed or run: `tenure schedules list` shows all"


def _steps(found: Schedule) -> Sequence[CheckedStep]:
    known = settings.load()
    steps = Checks(registry.load(known.kind_packages), known.params_bytes).of(found)
    if isinstance(steps, str):
        raise Refused(f"schedule {found.name} cannot be run: {steps}")
    return steps


def _write(database: Connection, found: Schedule, starts: Sequence[Start]) -> set[UUID]:
    for start in within_limits(database, starts):
        if start.execution.state is ExecutionState.FAILED:
            raise Refused(f"schedule {found.name} cannot be run: {start.execution.reason}")
    return write(database, starts)
