"""What items and counters mean for an activity and its task: each line of the table, by the real end."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tenure.model.items import Item
from tenure.model.kinds import KindSpec, kind
from tenure.model.stops import ShuttingDown
from tenure.runtime.attempt import Attempt
from tenure.store.transitions.recover import recover_expired
from tests.support.slot import Bench, Step

Make = Callable[..., Bench]
GOOD = Item("updated", "city", "1", "Oslo")
BAD = Item("updated", "city", "2", "Bergen", error="AmbiguousMatch", message="two of that name")
BUG = Item("updated", "city", "3", "Narvik", error="KeyError", unhandled=True)

# (items, checkpoint's processed and failed, objects counted, warning) → (activity, task)
TABLE: dict[str, tuple[tuple[Sequence[Item], int, int, int, bool], tuple[str, str]]] = {
    "all items in error": (([BAD, BAD], 0, 0, 0, False), ("failed", "failed error")),
    "all items in error, one of them unhandled": (([BUG, BAD], 0, 0, 0, True), ("failed", "failed error")),
    "an unhandled error": (([GOOD, BUG], 0, 0, 0, False), ("complete_with_error", "partially_succeeded")),
    "an unhandled error before a handled one": (([BAD, BUG, GOOD], 0, 0, 0, True), ("complete_with_error", "partially_succeeded")),
    "a handled error": (([GOOD, BAD], 0, 0, 0, False), ("complete_with_warning", "partially_succeeded")),
    "a handled error and a warning": (([GOOD, BAD], 0, 0, 0, True), ("complete_with_warning", "partially_succeeded")),
    "a warning only": (([], 0, 0, 0, True), ("complete_with_warning", "succeeded")),
    "a warning and good items": (([GOOD], 0, 0, 0, True), ("complete_with_warning", "succeeded")),
    "good items": (([GOOD, GOOD], 0, 0, 0, False), ("complete", "succeeded")),
    "nothing at all": (([], 0, 0, 0, False), ("complete", "succeeded")),
    "one error among unchanged objects": (([BAD], 500, 0, 0, False), ("complete_with_warning", "partially_succeeded")),
    "one error among counted objects": (([BAD], 0, 0, 499, False), ("complete_with_warning", "partially_succeeded")),
    "objects counted only": (([], 0, 0, 3, False), ("complete", "succeeded")),
    "the counter says that all failed": (([], 3, 3, 0, False), ("failed", "failed error")),
    "the counter says that some failed, and no item why": (([], 3, 1, 0, False), ("complete_with_error", "partially_succeeded")),
    "each failure has its item": (([BAD], 3, 1, 0, False), ("complete_with_warning", "partially_succeeded")),
    "a failure more than items": (([BAD], 3, 2, 0, False), ("complete_with_error", "partially_succeeded")),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_the_outcome_table(make_bench: Make, case: str) -> None:
    (items, processed, failed, counted, warned), (status, state) = TABLE[case]

    @kind("deciding")
    def deciding(attempt: Attempt, params: object) -> None:
        if warned:
            attempt.warn("the delta fell back to a full run")
        if items or processed or counted:
            with attempt.transaction() as tx:
                attempt.items(tx, items)
                attempt.count(tx, unchanged=counted)
                attempt.checkpoint(tx, Step(done=1), processed=processed, failed=failed)

    bench = make_bench(deciding, run_on_tasks=1)
    task = bench.submit(deciding)
    bench.run(task)
    assert (activity(bench, "status"), bench.state(task)) == (status, state)
    assert bench.leases() == 0
    assert [how.state for _, how in bench.sink.ends] == [state.partition(" ")[0]]
    if status == "failed":
        count = max(len(items), failed)
        assert bench.get(task)["error"] == {"code": "all_failed", "message": f"all {count} items failed"}
        assert activity(bench, "message") == f"all {count} items failed"


def activity(bench: Bench, column: str) -> Any:
    return bench.one(f"select {column} from activities where target_type = 'task'")


def run_twice(make_bench: Make, first: Callable[[Attempt, Any], None], **options: Any) -> tuple[Bench, str]:
    """A body whose second attempt does nothing but end."""

    @kind(KindSpec("twice", on_lost="resume", max_attempts=5, **options))
    def twice(attempt: Attempt, params: object) -> None:
        if not seen:
            seen.append(attempt.number)
            with attempt.transaction() as tx:
                attempt.items(tx, [GOOD, BAD])
                attempt.checkpoint(tx, Step(done=1), processed=2, failed=1)
            first(attempt, params)

    seen: list[int] = []
    bench = make_bench(twice, run_on_tasks=1)
    task = bench.submit(twice)
    bench.run(task)
    assert bench.state(task) in ("queued", "scheduled", "running")
    bench.rows("update tasks set state = 'queued', available_at = clock_timestamp() where state = 'scheduled'")
    bench.run(task)
    return bench, bench.state(task)


def test_a_retry_ends_by_what_the_attempt_before_it_left(make_bench: Make) -> None:
    def fails(attempt: Attempt, params: object) -> None:
        raise ValueError("once")

    bench, state = run_twice(make_bench, fails)
    assert (activity(bench, "status"), state) == ("complete_with_warning", "partially_succeeded")
    assert activity(bench, "message") is None


def test_a_released_attempt_leaves_its_items_to_the_next(make_bench: Make) -> None:
    def stops(attempt: Attempt, params: object) -> None:
        raise ShuttingDown()

    bench, state = run_twice(make_bench, stops, on_shutdown="release")
    assert (activity(bench, "status"), state) == ("complete_with_warning", "partially_succeeded")


def test_a_recovered_task_ends_by_the_items_of_the_lost_attempt(make_bench: Make) -> None:
    @kind(KindSpec("dying", on_lost="resume"))
    def dying(attempt: Attempt, params: object) -> None:
        if attempt.number == 1:
            with attempt.transaction() as tx:
                attempt.items(tx, [GOOD, BUG])
                attempt.checkpoint(tx, Step(done=1), processed=2)
            bench.expire(attempt.task_id)

    bench = make_bench(dying, run_on_tasks=1)
    task = bench.submit(dying)
    bench.run(task)
    assert bench.state(task) == "running"  # its own end was refused
    with bench.engine.begin() as connection:
        assert [one[1] for one in recover_expired(connection, crash_bound=3)] == ["queued"]
    bench.run(task)
    assert (activity(bench, "status"), bench.state(task)) == ("complete_with_error", "partially_succeeded")


def test_items_of_a_page_that_was_rolled_back_have_no_say(make_bench: Make) -> None:
    @kind("rolling")
    def rolling(attempt: Attempt, params: object) -> None:
        try:
            with attempt.transaction() as tx:
                attempt.items(tx, [BAD, BUG])
                attempt.checkpoint(tx, Step(done=1), processed=2, failed=2)
                raise LookupError
        except LookupError:
            pass

    bench = make_bench(rolling)
    task = bench.submit(rolling)
    bench.run(task)
    assert (activity(bench, "status"), bench.state(task)) == ("complete", "succeeded")
    assert bench.one("select count(*) from activity_items") == 0


def test_a_failed_body_fails_whatever_its_items_say(make_bench: Make) -> None:
    @kind("failing")
    def failing(attempt: Attempt, params: object) -> None:
        with attempt.transaction() as tx:
            attempt.items(tx, [GOOD])
            attempt.checkpoint(tx, Step(done=1), processed=1)
        raise ValueError("a secret")

    bench = make_bench(failing)
    task = bench.submit(failing)
    bench.run(task)
    assert (activity(bench, "status"), bench.state(task)) == ("failed", "failed error")
    assert activity(bench, "message").startswith("unexpected ValueError in failing (test_outcome_of_items.py:")
    assert "failing" in activity(bench, "stack")
    assert "secret" not in activity(bench, "stack")
    assert bench.one("select sum(objects)::int from activity_statistics") == 1
