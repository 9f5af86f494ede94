"""Advance: one transaction that moves one execution on. Safe to run at any time, by any number, for any execution.

First the execution's row is locked, then its members are read: one statement for both would read what was true before
the lock was had, and lose the advance when two members end together.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from tenure.model.executions import UNFINISHED, Decision, ExecutionState, decide
from tenure.store import executions, standing
from tenure.store.executions import Locked
from tenure.store.transitions.steps import cancel_steps, promote_group


@dataclass(frozen=True)
class Advanced:
    """What an advance did: the execution's state after it, the tasks queued, and whose schedule has room now."""

    state: ExecutionState
    queued: int = 0
    freed: UUID | None = None


def advance(connection: Connection, execution_id: UUID, *, wait: bool = True) -> Advanced | None:
    """Start the next group, end the execution, or do nothing yet. None: there is no such execution.

    Who has just ended a member waits for whoever holds the execution: that one may have read the members before. Who
    only passes by need not: OperationalError.

    After the commit of an answer with `freed`, look for `executions.next_waiting` of that schedule and advance it.
    """
    found = executions.lock(connection, execution_id, wait=wait)
    if found is None or found.state not in UNFINISHED:
        standing.forget(connection, execution_id)
        return None if found is None else Advanced(found.state)
    ids = [step.task_id for group in found.plan for step in group]
    members = executions.members(connection, execution_id, ids)
    if found.state is ExecutionState.WAITING and not executions.begin(connection, execution_id, found.schedule_id):
        return Advanced(found.state)
    cancelling = found.state is ExecutionState.CANCELLING
    decision = decide(found.plan, found.group_index, members, cancelling=cancelling)
    why = "its execution was cancelled" if cancelling else f"its execution ended before: {decision.reason}"
    cancel_steps(connection, decision.cancel, why=why)
    if decision.state is not None:
        executions.settle(connection, execution_id, decision.state, decision.reason)
        return Advanced(decision.state, freed=found.schedule_id)
    return _moved(connection, found, decision)


def _moved(connection: Connection, found: Locked, decision: Decision) -> Advanced:
    state = ExecutionState.RUNNING if found.state is ExecutionState.WAITING else found.state
    if not decision.promote:
        return Advanced(state)
    if not executions.move(connection, found.id, expected=found.group_index, to=decision.group_index):
        return Advanced(state)
    return Advanced(state, queued=len(promote_group(connection, decision.promote)))
