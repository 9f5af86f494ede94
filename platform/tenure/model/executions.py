"""Executions: one run of a schedule's step groups. What is to be done next, from what became of the members: pure.

A group's tasks run beside each other; the next group starts when all of them have ended. A group in which a task failed
stops the execution if any of its steps says `stop`. A warning is no failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from tenure.model.states import TERMINAL, State


class ExecutionState(StrEnum):
    WAITING = "waiting"  # an earlier one of the same schedule still runs
    RUNNING = "running"
    CANCELLING = "cancelling"  # a cancel was asked; members that run have not stopped yet
    SUCCEEDED = "succeeded"
    PARTIALLY_SUCCEEDED = "partially_succeeded"  # something failed, and its group said `continue`
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # never started: the reason says why


UNFINISHED = frozenset({ExecutionState.WAITING, ExecutionState.RUNNING, ExecutionState.CANCELLING})


class Trigger(StrEnum):
    DUE = "due"
    BACKFILL = "backfill"
    MANUAL = "manual"


@dataclass(frozen=True)
class PlanStep:
    """One task of an execution. `deadline_seconds` counts from when its group's turn comes."""

    task_id: UUID
    kind: str
    on_failure: Literal["stop", "continue"]
    deadline_seconds: float | None = None

    def document(self) -> dict[str, Any]:
        return {
            "task_id": str(self.task_id),
            "kind": self.kind,
            "on_failure": self.on_failure,
            "deadline_seconds": self.deadline_seconds,
        }


Plan = Sequence[Sequence[PlanStep]]


def plan_of(document: list[list[dict[str, Any]]]) -> list[list[PlanStep]]:
    """The plan as it is stored on the execution."""
    return [
        [PlanStep(UUID(step["task_id"]), step["kind"], step["on_failure"], step["deadline_seconds"]) for step in group]
        for group in document
    ]


@dataclass(frozen=True)
class Member:
    """What became of a step's task: its state, and its activity's status. None: retention has taken the row."""

    state: str | None
    activity: str | None

    @property
    def waiting(self) -> bool:
        return self.state == State.WAITING

    @property
    def ended(self) -> bool:
        if self.state is None:
            return self.activity != "in_progress"
        return State(self.state) in TERMINAL

    @property
    def cancelled(self) -> bool:
        return self.state == State.CANCELLED or (self.state is None and self.activity == "cancelled")

    @property
    def failed(self) -> bool:
        """Failed, cancelled, or complete with an error. A warning is none."""
        return self.state in (State.FAILED, State.CANCELLED) or self.activity in (
            "failed",
            "cancelled",
            "complete_with_error",
        )


GONE = Member(None, None)


@dataclass(frozen=True)
class Decision:
    """What an advance does: start group `group_index`, or end the execution as `state`, or (neither) nothing yet.

    `cancel`: waiting tasks that are cancelled with it.
    """

    group_index: int
    promote: Sequence[PlanStep] = ()
    state: ExecutionState | None = None
    reason: str | None = None
    cancel: Sequence[UUID] = ()


def decide(plan: Plan, group_index: int, members: Mapping[UUID, Member], *, cancelling: bool = False) -> Decision:
    """The next move of a running (or cancelling) execution whose current group is `group_index`."""
    found = [[members.get(step.task_id, GONE) for step in group] for group in plan]
    if cancelling and (cancelled := _cancelled(plan, group_index, found)) is not None:
        return cancelled
    for index in range(group_index, len(plan)):
        group = found[index]
        waiting = [step for step, member in zip(plan[index], group, strict=True) if member.waiting]
        if waiting:
            return Decision(index, promote=waiting)
        if not all(member.ended for member in group):
            return Decision(index)
        if any(member.failed for member in group) and any(step.on_failure == "stop" for step in plan[index]):
            return Decision(index, (), ExecutionState.FAILED, _failed(plan, index, group), _waiting(plan, found))
    return Decision(len(plan) - 1, (), *_complete(plan, found))


def _cancelled(plan: Plan, group_index: int, found: list[list[Member]]) -> Decision | None:
    """None: all had ended by themselves before the stop was seen, and that counts."""
    waiting = _waiting(plan, found)
    unended = [member for group in found for member in group if not member.ended and not member.waiting]
    if unended:
        return Decision(group_index, cancel=waiting)
    if waiting or any(member.cancelled for group in found for member in group):
        return Decision(group_index, (), ExecutionState.CANCELLED, "it was cancelled", waiting)
    return None


def _complete(plan: Plan, found: list[list[Member]]) -> tuple[ExecutionState, str | None]:
    failures = [said for index, group in enumerate(found) if (said := _failed(plan, index, group))]
    if failures:
        return ExecutionState.PARTIALLY_SUCCEEDED, "; ".join(failures)
    return ExecutionState.SUCCEEDED, None


def _failed(plan: Plan, index: int, group: list[Member]) -> str | None:
    """Which steps of a group failed, in words; None: none did."""
    names = [
        f"{step.kind} {'was cancelled' if member.cancelled else 'failed'}"
        for step, member in zip(plan[index], group, strict=True)
        if member.failed
    ]
    return f"group {index + 1}: {', '.join(names)}" if names else None


def _waiting(plan: Plan, found: list[list[Member]]) -> list[UUID]:
    return [
        step.task_id
        for steps, group in zip(plan, found, strict=True)
        for step, member in zip(steps, group, strict=True)
        if member.waiting
    ]
