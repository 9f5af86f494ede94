"""After a body one statement ends its task and claims the next: exactly, within bounds, and waiting for nobody."""

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from tenure.model.errors import InvalidKind
from tenure.model.kinds import KindSpec, kind
from tenure.runtime.attempt import Attempt
from tenure.runtime.executor import BATCH_SECONDS
from tenure.store.hot import RunOn
from tests.support.promptness import best_of
from tests.support.slot import TESTER, Bench

Make = Callable[..., Bench]


@kind("plain")
def plain(attempt: Attempt, params: object) -> None:
    pass


@kind("slow")
def slow(attempt: Attempt, params: object) -> None:
    attempt.sleep(0.03)


@kind("elsewhere")
def elsewhere(attempt: Attempt, params: object) -> None:
    pass


@kind("tiny", tiny=True, on_lost="resume")
def tiny(attempt: Attempt, params: object) -> None:
    pass


@kind("other-tiny", tiny=True, on_lost="resume")
def other_tiny(attempt: Attempt, params: object) -> None:
    pass


def batches(bench: Bench) -> list[list[str]]:
    """The kinds of what was claimed in one statement, in the order of the claims."""
    return [
        list(row[0])
        for row in bench.rows(
            """select array_agg(k.kind order by a.token) from task_attempts a join tasks k on k.id = a.task_id
               group by a.created_at order by min(a.token)"""
        )
    ]


def test_one_message_runs_all_that_is_queued_by_priority_then_age(make_bench: Make) -> None:
    bench = make_bench(plain)
    low, first, second, high = (bench.submit(plain, priority=priority) for priority in (0, 1, 1, 2))
    assert bench.run(low) == 4
    assert bench.sink.begun == [low, high, first, second]
    assert [bench.state(task) for task in (low, first, second, high)] == ["succeeded"] * 4
    assert bench.leases() == 0
    assert bench.channel.held(0)[0] == 0


def test_a_message_for_an_ended_an_unknown_or_an_active_task_runs_nothing(make_bench: Make) -> None:
    bench, other = make_bench(plain), make_bench(plain)
    done = bench.submit(plain)
    assert bench.drain() == 1
    assert bench.run(done) == 0
    assert bench.run(UUID(int=1)) == 0
    task = bench.submit(plain)
    assert other.executor._hot.claim(task) is not None
    assert bench.run(task) == 0
    assert bench.state(task) == "running"


@pytest.mark.parametrize("way", ["steal", "expire"])
def test_a_stolen_or_expired_lease_ends_nothing_and_claims_nothing(make_bench: Make, way: str) -> None:
    @kind("victim")
    def victim(attempt: Attempt, params: object) -> None:
        getattr(bench, way)(attempt.task_id)

    bench = make_bench(victim)
    task, following = bench.submit(victim), bench.submit(victim)
    assert bench.run(task) == 1
    assert bench.state(task) == "running"
    assert bench.leases() == 1
    assert bench.state(following) == "queued"
    assert following in bench.hints()
    assert bench.sink.ends == []


@pytest.mark.parametrize("table, column", [("tasks", "id"), ("task_hints", "task_id")])
def test_a_next_task_that_somebody_holds_is_skipped_at_once(make_bench: Make, table: str, column: str) -> None:
    bench = make_bench(plain)

    def lateness() -> float:
        task, held, free = (bench.submit(plain) for _ in range(3))
        with bench.engine.begin() as connection:
            connection.execute(text(f"select 1 from {table} where {column} = :t for update"), {"t": held})
            began = time.monotonic()
            assert bench.run(task) == 2
            took = time.monotonic() - began
        assert bench.state(free) == "succeeded"
        assert bench.state(held) == "queued"
        bench.drain()
        return took

    assert best_of(lateness, 0.1) < 0.1


def test_hints_of_kinds_this_worker_does_not_know_are_left_alone(make_bench: Make) -> None:
    bench = make_bench(plain)
    stranger, task = bench.submit(elsewhere, priority=9), bench.submit(plain)
    before = bench.rows("select id, not_before from task_hints where task_id = :t", t=stranger)
    assert bench.run(task) == 1
    assert bench.rows("select id, not_before from task_hints where task_id = :t", t=stranger) == before
    assert bench.state(stranger) == "queued"


def test_a_message_runs_so_many_tasks_and_no_more(make_bench: Make) -> None:
    bench = make_bench(plain, run_on_tasks=64)
    tasks = [bench.submit(plain) for _ in range(70)]
    assert bench.run(tasks[0]) == 64
    assert bench.hints() == tasks[64:]


def test_a_message_of_tiny_tasks_keeps_to_the_bound_as_well(make_bench: Make) -> None:
    bench = make_bench(tiny, run_on_tasks=64)
    tasks = [bench.submit(tiny) for _ in range(70)]
    assert bench.run(tasks[0]) == 64
    assert len(bench.hints()) == 6


def test_a_message_claims_nothing_after_a_quarter_of_a_second(make_bench: Make) -> None:
    bench = make_bench(slow, run_on_seconds=0.25)
    tasks = [bench.submit(slow) for _ in range(20)]
    began = time.monotonic()
    ran = bench.run(tasks[0])
    took = time.monotonic() - began
    assert 1 <= ran <= 9
    assert took >= 0.25
    assert bench.leases() == 0


def test_a_stop_is_asked_for_before_each_claim(make_bench: Make) -> None:
    @kind("last")
    def last(attempt: Attempt, params: object) -> None:
        bench.shutdown.stop()

    bench = make_bench(last)
    task, following = bench.submit(last), bench.submit(last)
    assert bench.run(task) == 1
    assert bench.state(task) == "succeeded"
    assert bench.state(following) == "queued"
    assert following in bench.hints()


def test_a_message_that_comes_after_the_stop_gives_its_hint_back(make_bench: Make) -> None:
    bench = make_bench(plain)
    task = bench.submit(plain)
    bench.shutdown.stop()
    assert bench.run(task) == 0
    assert bench.state(task) == "queued"
    assert bench.hints() == [task]
    assert bench.get(task)["attempt"] == 0


def test_a_task_claimed_as_the_stop_comes_is_handed_on_and_not_counted(make_bench: Make) -> None:
    bench = make_bench(plain)
    task = bench.submit(plain)
    hot = bench.executor._hot
    claim = hot.claim

    def claim_then_stop(task_id: UUID | str) -> object:
        got = claim(task_id)
        bench.shutdown.stop()
        return got

    hot.claim = claim_then_stop  # type: ignore[method-assign, assignment]
    assert bench.run(task) == 1
    assert bench.state(task) == "queued"
    assert bench.get(task)["attempt"] == 0
    assert bench.hints() == [task]
    assert bench.sink.begun == []


def test_a_paused_task_is_not_claimed_and_its_hint_waits(make_bench: Make) -> None:
    bench = make_bench(plain)
    bench.rows("insert into pauses (what, name, paused_by) values ('kind', 'plain', 'tester')")
    task = bench.submit(plain)
    assert bench.run(task) == 0
    assert bench.hints() == [task]
    assert bench.one("select not_before > clock_timestamp() from task_hints")


def test_tiny_tasks_are_ended_and_claimed_eight_at_a_time(make_bench: Make) -> None:
    bench = make_bench(tiny)
    tasks = [bench.submit(tiny) for _ in range(20)]
    assert bench.run(tasks[0]) == 20
    assert [len(batch) for batch in batches(bench)] == [1, 8, 8, 3]
    assert {bench.state(task) for task in tasks} == {"succeeded"}
    assert bench.leases() == 0


def test_one_that_fails_in_a_batch_harms_no_other(make_bench: Make) -> None:
    @kind("brittle", tiny=True, on_lost="resume")
    def brittle(attempt: Attempt, params: object) -> None:
        if attempt.task_id == tasks[4]:
            raise RuntimeError("this one")

    bench = make_bench(brittle)
    tasks = [bench.submit(brittle) for _ in range(12)]
    assert bench.run(tasks[0]) == 12
    assert [bench.state(task) for task in tasks] == ["succeeded"] * 4 + ["failed error"] + ["succeeded"] * 7
    assert sorted(bench.sink.begun) == sorted(tasks)


@pytest.mark.parametrize("way", ["steal", "expire"])
def test_one_whose_lease_is_lost_in_a_batch_harms_no_other(make_bench: Make, way: str) -> None:
    @kind("brittle", tiny=True, on_lost="resume")
    def brittle(attempt: Attempt, params: object) -> None:
        if attempt.task_id == tasks[4]:
            getattr(bench, way)(attempt.task_id)

    bench = make_bench(brittle)
    tasks = [bench.submit(brittle) for _ in range(12)]
    assert bench.run(tasks[0]) == 12
    assert [bench.state(task) for task in tasks] == ["succeeded"] * 4 + ["running"] + ["succeeded"] * 7
    assert bench.leases() == 1


def test_a_stop_in_a_batch_hands_on_what_has_not_begun(make_bench: Make) -> None:
    @kind("brittle", tiny=True, on_lost="resume")
    def brittle(attempt: Attempt, params: object) -> None:
        if attempt.task_id == tasks[4]:
            bench.shutdown.stop()

    bench = make_bench(brittle)
    tasks = [bench.submit(brittle) for _ in range(12)]
    bench.run(tasks[0])
    assert [bench.state(task) for task in tasks] == ["succeeded"] * 5 + ["queued"] * 7
    assert sorted(bench.hints()) == sorted(tasks[5:])
    assert bench.rows("select distinct attempt from tasks where state = 'queued'") == [(0,)]


def test_a_batch_never_holds_a_kind_that_is_not_tiny(make_bench: Make) -> None:
    bench = make_bench(tiny, other_tiny, plain)
    tasks = [bench.submit((tiny, plain, other_tiny)[number % 3]) for number in range(30)]
    assert bench.drain() == 30
    made = batches(bench)
    assert sum(len(batch) for batch in made) == 30
    assert any(len(batch) > 1 for batch in made)
    assert all("plain" not in batch for batch in made if len(batch) > 1)
    assert any({"tiny", "other-tiny"} <= set(batch) for batch in made)
    assert {bench.state(task) for task in tasks} == {"succeeded"}


def test_a_cancel_asked_before_the_claim_ends_it_there(make_bench: Make) -> None:
    bench = make_bench(plain)
    task, following = bench.submit(plain), bench.submit(plain)
    bench.cancel(following)
    assert bench.run(task) == 1
    assert bench.state(following) == "cancelled"
    assert TESTER.name in str(bench.get(following)["history"])


@pytest.mark.parametrize("options", [{"on_lost": "fail"}, {"on_lost": "resume", "run_limit": 3.0}])
def test_a_tiny_kind_that_a_neighbour_could_harm_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidKind, match="a tiny kind is idempotent"):
        KindSpec("small", tiny=True, **options)


def test_what_has_lost_a_worker_is_never_claimed_in_a_batch(make_bench: Make) -> None:
    bench = make_bench(tiny)
    tasks = [bench.submit(tiny) for _ in range(6)]
    bench.rows("update tasks set crashes = 1 where id = :id", id=tasks[2])
    got = bench.executor._hot.claim_next(RunOn("default", ["tiny"], 8))
    assert {one.lease.task_id for one in got} == set(tasks) - {tasks[2]}
    assert bench.one("select count(*) from task_hints where task_id = :id", id=tasks[2]) == 1


def test_a_slow_body_hands_back_the_rest_of_its_batch(make_bench: Make) -> None:
    ran: list[Any] = []

    @kind("sometimes-slow", tiny=True, on_lost="resume")
    def sometimes_slow(attempt: Attempt, params: object) -> None:
        ran.append(attempt.task_id)
        if attempt.task_id == slow:
            attempt.sleep(BATCH_SECONDS * 1.5)

    bench = make_bench(sometimes_slow)
    tasks = [bench.submit(sometimes_slow) for _ in range(6)]
    slow = tasks[2]
    bench.run(tasks[0])
    assert ran[:3] == tasks[:3]
    released = bench.rows("select task_id, attempt from task_attempts where how = 'released'")
    assert {row[0] for row in released} == set(tasks[3:])
    assert all(bench.get(task)["attempt"] <= 1 for task in tasks), "a body that never began is not counted"
