"""What an execution does next, from what became of its members."""

from itertools import count
from uuid import UUID

import pytest

from tenure.model.executions import ExecutionState, Member, PlanStep, decide, plan_of
from tenure.model.states import State

STOP, GO_ON = "stop", "continue"
W, Q, R = (Member(s, "in_progress") for s in ("waiting", "queued", "running"))
OK, BAD = Member("succeeded", "complete"), Member("failed", "failed")
WARNED = Member("partially_succeeded", "complete_with_warning")
ERRORS = Member("partially_succeeded", "complete_with_error")
STOPPED = Member("cancelled", "cancelled")


def arranged(*groups: list[tuple[str, Member]]) -> tuple[list[list[PlanStep]], dict[UUID, Member]]:
    """A plan of kinds k1, k2, … and what became of each."""
    numbers = count(1)
    plan: list[list[PlanStep]] = []
    members: dict[UUID, Member] = {}
    for group in groups:
        plan.append([])
        for on_failure, member in group:
            number = next(numbers)
            plan[-1].append(PlanStep(UUID(int=number), f"k{number}", "stop" if on_failure == STOP else "continue"))
            members[UUID(int=number)] = member
    return plan, members


def numbers(ids: object) -> list[int]:
    return [one.int if isinstance(one, UUID) else one.task_id.int for one in ids]  # type: ignore[attr-defined]


@pytest.mark.parametrize("under_way", [Q, R, Member("scheduled", "in_progress"), Member("validating", "in_progress")])
def test_a_group_with_a_task_under_way_is_waited_for(under_way: Member) -> None:
    plan, members = arranged([(STOP, BAD), (STOP, under_way)], [(STOP, W)])
    decision = decide(plan, 0, members)
    assert (decision.group_index, decision.promote, decision.state, decision.cancel) == (0, (), None, ())


def test_the_next_group_starts_when_all_of_one_have_ended() -> None:
    plan, members = arranged([(STOP, OK), (STOP, WARNED)], [(STOP, W), (STOP, W)], [(STOP, W)])
    decision = decide(plan, 0, members)
    assert (decision.group_index, numbers(decision.promote), decision.state) == (1, [3, 4], None)


def test_the_last_group_ends_the_execution() -> None:
    plan, members = arranged([(STOP, OK)], [(STOP, OK)])
    decision = decide(plan, 1, members)
    assert (decision.state, decision.reason, decision.cancel) == (ExecutionState.SUCCEEDED, None, ())


@pytest.mark.parametrize("failure", [BAD, ERRORS, STOPPED], ids=["failed", "with an error", "cancelled"])
@pytest.mark.parametrize("stopping", [0, 1])
def test_one_stop_step_in_a_parallel_group_stops_whichever_failed(failure: Member, stopping: int) -> None:
    group = [(GO_ON, failure), (GO_ON, OK)]
    group[stopping] = (STOP, group[stopping][1])
    plan, members = arranged(group, [(STOP, W)], [(GO_ON, W)])
    decision = decide(plan, 0, members)
    assert (decision.state, numbers(decision.cancel)) == (ExecutionState.FAILED, [3, 4])
    assert decision.reason == f"group 1: k1 {'was cancelled' if failure is STOPPED else 'failed'}"


def test_a_group_that_continues_goes_on_and_the_execution_says_what_failed() -> None:
    plan, members = arranged([(GO_ON, BAD), (GO_ON, OK)], [(STOP, W)])
    assert numbers(decide(plan, 0, members).promote) == [3]
    plan, members = arranged([(GO_ON, BAD), (GO_ON, OK)], [(STOP, OK)])
    decision = decide(plan, 1, members)
    assert (decision.state, decision.reason) == (ExecutionState.PARTIALLY_SUCCEEDED, "group 1: k1 failed")


def test_a_warning_is_no_failure() -> None:
    plan, members = arranged([(STOP, WARNED)])
    assert decide(plan, 0, members).state is ExecutionState.SUCCEEDED


def test_a_group_whose_tasks_were_all_cancelled_before_their_turn_counts_as_failed() -> None:
    plan, members = arranged([(STOP, OK)], [(STOP, STOPPED), (STOP, STOPPED)], [(STOP, W)])
    decision = decide(plan, 0, members)
    assert (decision.state, numbers(decision.cancel)) == (ExecutionState.FAILED, [4])


def test_what_retention_has_taken_is_judged_by_its_activity() -> None:
    plan, members = arranged([(STOP, Member(None, "failed"))], [(STOP, W)])
    assert decide(plan, 0, members).state is ExecutionState.FAILED
    plan, members = arranged([(STOP, Member(None, "complete"))], [(STOP, Member(None, None))])
    assert decide(plan, 0, members).state is ExecutionState.SUCCEEDED


def test_a_cancelled_execution_ends_when_its_last_task_has_and_lets_none_start() -> None:
    plan, members = arranged([(STOP, STOPPED), (STOP, R)], [(STOP, W)])
    decision = decide(plan, 0, members, cancelling=True)
    assert (decision.state, decision.promote, numbers(decision.cancel)) == (None, (), [3])
    plan, members = arranged([(STOP, STOPPED), (STOP, BAD)], [(STOP, STOPPED)])
    assert decide(plan, 0, members, cancelling=True).state is ExecutionState.CANCELLED


def test_a_cancel_that_came_too_late_changes_nothing() -> None:
    plan, members = arranged([(STOP, OK)], [(STOP, OK)])
    assert decide(plan, 1, members, cancelling=True).state is ExecutionState.SUCCEEDED


@pytest.mark.parametrize(
    ("says", "state"), [(STOP, ExecutionState.FAILED), (GO_ON, ExecutionState.PARTIALLY_SUCCEEDED)]
)
def test_a_failure_before_the_stop_was_seen_means_what_its_step_says(says: str, state: ExecutionState) -> None:
    plan, members = arranged([(STOP, OK)], [(says, BAD)])
    decision = decide(plan, 1, members, cancelling=True)
    assert (decision.state, decision.reason) == (state, "group 2: k2 failed")


@pytest.mark.parametrize("state", [s.value for s in State])
def test_every_state_of_a_task_is_one_of_waiting_under_way_and_ended(state: str) -> None:
    member = Member(state, None)
    assert member.waiting + member.ended + (not member.waiting and not member.ended) == 1
    assert member.ended == (state in ("succeeded", "partially_succeeded", "failed", "cancelled"))


def test_a_plan_comes_back_as_it_was_stored() -> None:
    plan = [[PlanStep(UUID(int=1), "k", "stop", 2.5)], [PlanStep(UUID(int=2), "k", "continue")]]
    assert plan_of([[step.document() for step in group] for group in plan]) == plan
