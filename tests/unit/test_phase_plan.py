"""Which phase is open when: the plan that a body goes through."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.model.phases import LIMIT, LONGEST, UNNAMED, PhaseStatus, Plan, clean, in_order, lineage


def seen(plan: Plan) -> dict[str, str]:
    return {phase.path: phase.status.value for phase in plan.phases}


def test_declared_phases_are_pending_in_their_order_and_a_parent_comes_before_its_first_child() -> None:
    plan = Plan(["import/users", "import/groups", "settle"])
    assert [(phase.position, phase.path) for phase in plan.phases] == [
        (0, "import"), (1, "import/users"), (2, "import/groups"), (3, "settle"),
    ]  # fmt: skip
    assert set(seen(plan).values()) == {"pending"}
    assert plan.current is None


def test_opening_a_phase_closes_its_sibling_and_leaves_what_it_is_within_open() -> None:
    plan = Plan(["import/users", "import/groups", "settle"])
    plan.enter("import/users", 1.0)
    plan.enter("import/groups", 2.0)
    assert seen(plan) == {
        "import": "running", "import/users": "completed", "import/groups": "running", "settle": "pending",
    }  # fmt: skip
    plan.enter("settle", 3.0)
    assert seen(plan) == {
        "import": "completed", "import/users": "completed", "import/groups": "completed", "settle": "running",
    }  # fmt: skip
    users = plan.phases[1]
    assert (users.opened, users.closed) == (1.0, 2.0)


def test_declared_phases_that_are_passed_over_are_skipped_and_may_still_be_opened() -> None:
    plan = Plan(["a", "b/x", "b/y", "c"])
    plan.enter("b/y", 1.0)
    assert seen(plan) == {"a": "skipped", "b": "running", "b/x": "skipped", "b/y": "running", "c": "pending"}
    plan.enter("a", 2.0)
    assert seen(plan) == {"a": "running", "b": "completed", "b/x": "skipped", "b/y": "completed", "c": "pending"}


def test_what_was_not_declared_comes_after_and_skips_nothing() -> None:
    plan = Plan(["import", "settle"])
    plan.enter("import", 1.0)
    plan.enter("import/connector: fetch", 2.0)
    assert seen(plan) == {"import": "running", "settle": "pending", "import/connector: fetch": "running"}
    assert in_order([phase.path for phase in plan.phases]) == [0, 2, 1], "shown within what it is in"
    plan.enter("other", 3.0)
    assert seen(plan)["settle"] == "pending"


def test_opening_what_is_open_changes_nothing_and_what_is_closed_opens_again() -> None:
    plan = Plan(["a", "b"])
    first = plan.enter("a", 1.0)
    first.changed = False
    assert plan.enter("a", 2.0) is first
    assert (first.opened, first.changed) == (1.0, False)
    plan.enter("b", 3.0)
    plan.enter("a", 4.0)
    assert (first.status, first.opened, first.closed) == (PhaseStatus.RUNNING, 1.0, None)


def test_leaving_a_phase_closes_all_within_it_and_goes_back_to_its_parent() -> None:
    plan = Plan(["import/users/read", "import/users/write", "settle"])
    users = plan.enter("import/users", 1.0)
    plan.enter("import/users/read", 2.0)
    plan.leave(users, 3.0)
    assert seen(plan) == {
        "import": "running", "import/users": "completed", "import/users/read": "completed",
        "import/users/write": "skipped", "settle": "pending",
    }  # fmt: skip
    assert plan.current is not None
    assert plan.current.path == "import"


def test_a_phase_left_by_an_error_has_failed_and_one_that_is_closed_stays_as_it_is() -> None:
    plan = Plan(["a", "b"])
    first = plan.enter("a", 1.0)
    plan.leave(first, 2.0, failed=True)
    assert first.status is PhaseStatus.FAILED
    plan.leave(first, 3.0)
    assert (first.status, first.closed) == (PhaseStatus.FAILED, 2.0)
    assert plan.current is first, "late progress goes to the last phase there was"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("import/users", "import/users"), ("/a//b/", "a/b"), ("  a \n b ", "a b"), ("", UNNAMED), ("///", UNNAMED),
        ("x" * 500, "x" * (LONGEST - 1) + "…"), (7, "7"), (None, "None"), ("a\0b", "a\N{REPLACEMENT CHARACTER}b"), ("\ud800", "?"),
    ],
)  # fmt: skip
def test_any_name_becomes_a_path_that_can_be_stored(given: Any, path: str) -> None:
    assert clean(given) == path


def test_a_name_that_cannot_be_said_is_called_by_its_class() -> None:
    class Mute:
        def __str__(self) -> str:
            raise ValueError("no")

    assert clean(Mute()) == "Mute"


def test_more_phases_than_the_limit_are_not_recorded() -> None:
    plan = Plan()
    for number in range(3 * LIMIT):
        plan.enter(f"page {number}", float(number))
    assert len(plan.phases) == LIMIT
    assert plan.current is plan.phases[-1]
    assert plan.phases[-1].status is PhaseStatus.RUNNING


PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join)


@given(
    declared=st.lists(PATHS, max_size=8), steps=st.lists(st.tuples(PATHS, st.booleans(), st.booleans()), max_size=30)
)
def test_whatever_a_body_does_one_phase_runs_with_those_it_is_within(
    declared: list[str], steps: list[tuple[str, bool, bool]]
) -> None:
    plan = Plan(declared)
    for number, (path, leaving, failed) in enumerate(steps):
        phase = plan.enter(path, float(number))
        assert phase is plan.current
        if leaving:
            plan.leave(phase, number + 0.5, failed=failed)
        running = sorted((p.path for p in plan.phases if p.status is PhaseStatus.RUNNING), key=len)
        assert running == (lineage(running[-1]) if running else [])
        for one in plan.phases:
            assert (one.status is PhaseStatus.RUNNING) == (one.opened is not None and one.closed is None)
            assert one.opened is None or one.closed is None or one.opened <= one.closed
    paths = [phase.path for phase in plan.phases]
    assert [phase.position for phase in plan.phases] == list(range(len(paths)))
    shown = [paths[index] for index in in_order(paths)]
    for index, path in enumerate(shown):
        parent = path.rpartition("/")[0]
        assert not parent or shown[index - 1] == parent or shown[index - 1].startswith(f"{parent}/")
