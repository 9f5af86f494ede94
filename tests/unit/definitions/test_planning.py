"""What is changed, added and removed for the schedules that are there to become those that are wanted."""

from typing import Any

import pytest

from tenure.model.definitions import Change, Present, ScheduleSpec, StepSpec, Wanted, plan
from tenure.model.errors import ScheduleInvalid, ScheduleKept


def spec(name: str = "n", *kinds: Any, **fields: Any) -> ScheduleSpec:
    recurs = {} if fields.keys() & {"cron", "manual", "every"} else {"every": 60}
    groups = [kind if isinstance(kind, list) else [kind] for kind in kinds or ("a",)]
    steps = [[one if isinstance(one, StepSpec) else StepSpec(kind=one) for one in group] for group in groups]
    return ScheduleSpec(name=name, steps=steps, **recurs, **fields)


def there(*specs: ScheduleSpec, origin: str = "file", built_in: bool = False) -> dict[str, Present]:
    return {one.name: Present(one, origin, built_in, 1) for one in specs}


def wanted(*specs: ScheduleSpec, origin: str = "file") -> Wanted:
    return Wanted(origin, specs)


def changes(before: ScheduleSpec, after: ScheduleSpec) -> list[Change]:
    return [change for one in plan(wanted(after), there(before)).changed for change in one.changes]


def test_the_same_is_left_alone() -> None:
    made = plan(wanted(spec("b"), spec("a")), there(spec("a"), spec("b")))
    assert made.does_nothing
    assert made.unchanged == ("a", "b")


def test_what_says_the_same_in_other_words_is_no_change() -> None:
    assert changes(spec(cron="0  3 * * *"), spec(cron="0 3 * * *", zone="UTC")) == []
    assert changes(spec(every=90), spec(every="90s")) == []


def test_what_is_new_is_added_in_the_order_of_names() -> None:
    made = plan(wanted(spec("b"), spec("a")), {})
    assert [one.name for one in made.added] == ["a", "b"]


def test_each_field_that_differs_is_named() -> None:
    before = spec("n", "a", cron="0 3 * * *")
    after = spec("n", "a", every=90, overlap="allow", misfire="all", at_most=3, enabled=False, description="why")
    assert changes(before, after) == [
        Change("recurs", "0 3 * * * UTC", "every 90s"),
        Change("description", "", "why"),
        Change("overlap", "skip", "allow"),
        Change("misfire", "once", "all"),
        Change("at_most", "none", "3"),
        Change("enabled", "true", "false"),
    ]


def test_a_step_that_differs_is_named_by_its_place() -> None:
    before = spec("n", "a", ["b", StepSpec(kind="c", params={"x": 1})])
    after = spec("n", "a", ["b", StepSpec(kind="c", params={"x": 2}, on_failure="continue")])
    assert changes(before, after) == [
        Change("step 2.2 params", '{"x": 1}', '{"x": 2}'),
        Change("step 2.2 on_failure", "inherit", "continue"),
    ]


def test_other_kinds_or_groups_are_shown_whole() -> None:
    assert changes(spec("n", "a", "b"), spec("n", ["a", "b"])) == [Change("steps", "a > b", "a + b")]


def test_only_pruning_removes_and_only_what_this_origin_made() -> None:
    present = {
        **there(spec("gone")),
        **there(spec("by-hand"), origin=""),
        **there(spec("of-another"), origin="billing"),
        **there(spec("built-in"), built_in=True),
    }
    kept = plan(wanted(), present)
    assert (kept.removed, kept.left) == ((), ("gone",))
    pruned = plan(wanted(), present, prune=True)
    assert (pruned.removed, pruned.left) == (("gone",), ())


def test_a_schedule_that_another_origin_keeps_is_refused_unless_it_is_taken() -> None:
    present = there(spec(), origin="celery")
    with pytest.raises(ScheduleKept, match="is kept by 'celery', not by 'file'"):
        plan(wanted(spec()), present)
    taken = plan(wanted(spec()), present, take=True)
    assert [one.changes for one in taken.changed] == [(Change("kept by", "celery", "file"),)]


def test_one_made_by_hand_may_be_changed() -> None:
    assert len(plan(wanted(spec(every=5)), there(spec(), origin="")).changed) == 1


def test_steps_may_be_left_out_only_for_what_is_built_in() -> None:
    bare = ScheduleSpec(name="n", every=5)
    made = plan(wanted(bare), there(spec("n", "own", description="what it does"), built_in=True))
    assert made.changed[0].spec.steps == spec("n", "own").steps
    assert [change.field for change in made.changed[0].changes] == ["recurs"]
    for present in ({}, there(spec("n", "a"))):
        with pytest.raises(ScheduleInvalid, match="schedule n: give its steps"):
            plan(wanted(bare), present)
