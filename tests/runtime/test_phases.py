"""What a body says of its phases: seen while it runs, at most once a second, and never its worry."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from tenure.model.kinds import kind
from tenure.model.stops import Cancelled, Cause, LeaseLost
from tenure.runtime.attempt import Attempt
from tenure.store.transitions.recover import recover_expired
from tests.support.databases import Database
from tests.support.phases import seen, statuses
from tests.support.slot import FULL, Bench, Step
from tests.support.until import until

Make = Callable[..., Bench]
ENDS_WITHIN = 2.0  # s for what takes 0.2 s on a quiet machine


class Narrating:
    """A kind whose body is given per test."""

    def __init__(self, make_bench: Make, body: Callable[[Attempt], Any], **options: Any) -> None:
        self.raised: list[BaseException] = []
        self._body = body
        self.kind = kind("narrating", **{"max_attempts": 9, **options})(self._run)
        self.bench = make_bench(self.kind, run_on_tasks=1)

    def _run(self, attempt: Attempt, params: object) -> Any:
        try:
            return self._body(attempt)
        except BaseException as error:
            self.raised.append(error)
            raise

    def go(self) -> UUID:
        task = self.bench.submit(self.kind)
        self.bench.run(task)
        return task

    def rows(self) -> list[tuple[Any, ...]]:
        return [
            tuple(row)
            for row in self.bench.rows(
                "select path, status, done, total, message from activity_phases order by position"
            )
        ]


def again(bench: Bench, task: UUID) -> None:
    """Let the next attempt come."""
    bench.rows("update tasks set state = 'queued', available_at = clock_timestamp()")
    bench.run(task)


def count_writes(bench: Bench) -> None:
    bench.rows("create table if not exists writes (at timestamptz not null default clock_timestamp())")
    bench.rows("""create or replace function count_write() returns trigger language plpgsql as
        $$ begin insert into writes default values; return null; end $$""")
    bench.rows("""create or replace trigger count_writes after insert on activity_phases
        for each statement execute function count_write()""")


@pytest.fixture
def counting(make_bench: Make, database: Database) -> Any:
    yield count_writes
    with database.engine.begin() as connection:
        connection.execute(text("drop trigger if exists count_writes on activity_phases"))


def test_declared_phases_are_all_seen_before_the_run_in_order_and_nested(make_bench: Make, database: Database) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["import/users", "import/groups", "settle"])
        found.extend(seen(database, attempt.task_id))

    found: list[tuple[str, str]] = []
    told = Narrating(make_bench, body)
    task = told.go()
    assert found == [(path, "pending") for path in ("import", "import/users", "import/groups", "settle")]
    assert statuses(database, task) == ["skipped"] * 4


def test_the_phase_that_runs_is_seen_with_its_progress_while_a_transaction_is_open(
    make_bench: Make, database: Database
) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["read", "write"])
        attempt.phase("read", total=10)
        attempt.phase("write", total=20, message="the second half")
        with attempt.transaction():
            attempt.progress(7)
            until(lambda: told.rows()[1][2] == 7)
            found.extend(told.rows())

    found: list[Any] = []
    told = Narrating(make_bench, body)
    told.go()
    assert found == [("read", "completed", None, 10, None), ("write", "running", 7, 20, "the second half")]
    assert told.rows()[1][:3] == ("write", "completed", 7)


def test_the_last_value_of_each_phase_lands_however_short_it_was(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["a", "b", "c"])
        for name in "abc":
            with attempt.phase(name, total=100):
                for done in range(101):
                    attempt.progress(done)

    told = Narrating(make_bench, body)
    assert told.bench.state(told.go()) == "succeeded"
    assert told.rows() == [(name, "completed", 100, 100, None) for name in "abc"]


def test_times_of_phases_are_the_databases_and_their_lengths_the_bodys(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["a", "b"])
        attempt.phase("a")
        time.sleep(0.05)
        attempt.phase("b")

    told = Narrating(make_bench, body)
    told.go()
    lengths = told.bench.rows("""select extract(epoch from p.ended_at - p.started_at)::float8, p.started_at >= k.started_at,
        p.ended_at <= k.finished_at + interval '1 second' from activity_phases p join tasks k on k.id = p.task_id order by position""")
    assert 0.05 <= lengths[0][0] < 1
    assert [row[1:] for row in lengths] == [(True, True)] * 2


@pytest.mark.parametrize(
    ("cause", "state"), [(Cause.CANCEL, "cancelled"), (Cause.DEADLINE, "failed deadline_exceeded")]
)
def test_a_stopped_run_closes_its_phases_as_failed_and_stays_what_it_is(
    make_bench: Make, database: Database, cause: Cause, state: str
) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["a", "b/x", "b/y", "c"])
        attempt.phase("a")
        attempt.phase("b/x")
        told.bench.ask(cause)
        attempt.check()

    told = Narrating(make_bench, body)
    task = told.go()
    assert told.bench.state(task) == state
    assert statuses(database, task) == ["completed", "failed", "failed", "skipped", "skipped"]
    activity = told.bench.one("select status from activities where id = :t", t=task)
    assert activity == state.split()[0]


def test_an_error_within_a_phase_is_seen_at_it_also_where_the_body_goes_on(
    make_bench: Make, database: Database
) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["a", "b"])
        with pytest.raises(KeyError), attempt.phase("a"):
            raise KeyError
        attempt.phase("b")

    told = Narrating(make_bench, body)
    task = told.go()
    assert told.bench.state(task) == "succeeded"
    assert statuses(database, task) == ["failed", "completed"]


def test_progress_without_phases_is_seen_as_work(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(total=5)
        attempt.progress(3, total=5, message="so far")

    told = Narrating(make_bench, body)
    told.go()
    assert told.rows() == [("work", "completed", 3, 5, "so far")]


def test_a_phase_that_was_not_declared_is_added_within_the_one_it_names(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["import", "settle"])
        with attempt.phase("import"):
            attempt.phase("import/connector: fetch", total=3)
            attempt.progress(3)
        attempt.phase("settle")

    told = Narrating(make_bench, body)
    told.go()
    assert [row[:3] for row in told.rows()] == [
        ("import", "completed", None), ("settle", "completed", None), ("import/connector: fetch", "completed", 3),
    ]  # fmt: skip


def test_an_attempt_that_resumes_declares_its_phases_anew(make_bench: Make, database: Database) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["a", "b", "c"] if attempt.number == 1 else ["a", "c"])
        attempt.phase("a" if attempt.number == 1 else "c")
        if attempt.number == 1:
            raise ConnectionError("again")

    told = Narrating(make_bench, body)
    task = told.go()
    assert statuses(database, task) == ["stopped", "skipped", "skipped"]
    again(told.bench, task)
    assert seen(database, task) == [("a", "skipped"), ("c", "completed")]


class Odd:
    """A number that cannot be had, as of a proxy whose session is gone."""

    def __int__(self) -> int:
        raise LookupError


@pytest.mark.parametrize("value", [-5, "many", float("nan"), object(), 1 << 80, b"\0", Odd()])
def test_odd_values_never_fail_a_run(make_bench: Make, value: Any) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=[value, "b"])
        attempt.phase(value, total=value, message=value)
        attempt.progress(value)
        attempt.phase("b")

    told = Narrating(make_bench, body)
    assert told.bench.state(told.go()) == "succeeded"
    assert [row[1] for row in told.rows()] == ["completed", "completed"]


def test_an_estimate_that_was_too_low_is_raised(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        attempt.phase("a", total=10)
        attempt.progress(15)

    told = Narrating(make_bench, body)
    told.go()
    assert told.rows()[0][2:4] == (15, 15)


# -- how often, and at what price ------------------------------------------------------------------------------------


def test_whatever_a_body_does_its_progress_is_written_at_most_once_a_second(make_bench: Make, counting: Any) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["count"])
        attempt.phase("count", total=100_000)
        began = time.perf_counter()
        for done in range(1, 100_001):
            attempt.progress(done)
        prices.append((time.perf_counter() - began) / 100_000)
        while time.perf_counter() - began < lasts:
            attempt.phase("count")
            attempt.phase("other")
            attempt.progress(1)

    prices: list[float] = []
    lasts = 10.0 if FULL else 2.2
    told = Narrating(make_bench, body)
    counting(told.bench)
    told.go()
    gaps = told.bench.rows("select extract(epoch from at - lag(at) over (order by at))::float8 from writes order by at")
    # The first is the declaration, the last comes with the end.
    between = [gap for (gap,) in gaps[1:-1]]
    assert len(between) >= lasts - 1.5
    assert min(between) > 0.9
    assert len(gaps) <= lasts + 2
    print(json.dumps({"us_per_call": prices[0] * 1e6}))
    assert prices[0] < 10e-6, "2 µs on a quiet machine"


def test_a_body_that_says_nothing_costs_no_write(make_bench: Make, counting: Any) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["a"])
        attempt.sleep(1.2)

    told = Narrating(make_bench, body)
    counting(told.bench)
    told.go()
    assert told.bench.one("select count(*) from writes") == 1


def test_attempts_without_phases_have_no_session_for_them_nor_a_thread(make_bench: Make) -> None:
    told = Narrating(make_bench, lambda attempt: attempt.begin(total=3))
    before = threading.active_count()
    told.go()
    assert threading.active_count() == before
    assert told.bench.one("select count(*) from pg_stat_activity where application_name like 'tenure phases%'") == 0


# -- when writing fails ----------------------------------------------------------------------------------------------


def test_a_killed_connection_is_made_again_and_nothing_is_lost(make_bench: Make, database: Database) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["a", "b"])
        attempt.phase("a", total=9)
        assert told.bench.one("select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name like :a",
                              a="tenure phases%") == 1  # fmt: skip
        attempt.progress(9)
        attempt.phase("b")

    told = Narrating(make_bench, body)
    task = told.go()
    assert told.bench.state(task) == "succeeded"
    assert told.rows() == [("a", "completed", 9, 9, None), ("b", "completed", None, None, None)]


@pytest.mark.parametrize("stopped", [False, True], ids=["a success", "a cancel"])
def test_locked_phases_fail_no_run_and_delay_no_end(make_bench: Make, database: Database, stopped: bool) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["a", "b"])
        attempt.phase("a")
        holding.execute(text("lock table activity_phases in access exclusive mode"))
        attempt.progress(1)
        if stopped:
            told.bench.ask(Cause.CANCEL)
        began.append(time.monotonic())
        attempt.check()

    began: list[float] = []
    told = Narrating(make_bench, body)
    engine = create_engine(database.url, poolclass=NullPool)
    with engine.connect() as holding:
        task = told.go()
        took = time.monotonic() - began[0]
        assert told.bench.state(task) == ("cancelled" if stopped else "succeeded")
        assert told.bench.leases() == 0
        holding.rollback()
    assert took < ENDS_WITHIN


def test_phases_that_cannot_be_declared_hold_a_body_up_for_a_second_at_most(
    make_bench: Make, database: Database
) -> None:
    def body(attempt: Attempt) -> None:
        began = time.monotonic()
        attempt.begin(phases=["a"])
        took.append(time.monotonic() - began)
        attempt.phase("a", total=4)
        attempt.progress(4)
        holding.rollback()

    took: list[float] = []
    told = Narrating(make_bench, body)
    with create_engine(database.url, poolclass=NullPool).connect() as holding:
        holding.execute(text("lock table activity_phases in access exclusive mode"))
        task = told.go()
    assert took[0] < ENDS_WITHIN
    assert told.bench.state(task) == "succeeded"
    assert told.rows() == [("a", "completed", 4, 4, None)]


def test_a_database_that_takes_no_new_session_fails_no_run(make_bench: Make, database: Database) -> None:
    def body(attempt: Attempt) -> None:
        with attempt.transaction():
            database.accept_connections(False)
            attempt.begin(phases=["a"])
            attempt.phase("a")
            attempt.progress(1)
            database.accept_connections(True)

    told = Narrating(make_bench, body)
    task = told.go()
    assert told.bench.state(task) == "succeeded"
    assert statuses(database, task) == ["completed"]


@pytest.mark.parametrize("way", ["steal", "expire"])
def test_an_ex_holder_says_nothing_more(make_bench: Make, database: Database, way: str) -> None:
    def body(attempt: Attempt) -> None:
        attempt.begin(phases=["a", "b"])
        attempt.phase("a")
        getattr(told.bench, way)(attempt.task_id)
        attempt.progress(1)
        attempt.phase("b")
        until(lambda: attempt._story.over)
        attempt.progress(2)
        attempt.fence()

    told = Narrating(make_bench, body)
    task = told.go()
    assert [type(error) for error in told.raised] == [LeaseLost]
    assert told.rows() == [("a", "pending", None, None, None), ("b", "pending", None, None, None)]
    if way == "expire":
        with told.bench.engine.begin() as connection:
            assert recover_expired(connection, crash_bound=1)
        assert statuses(database, task) == ["skipped", "skipped"]


def test_a_stop_is_heard_while_phases_are_declared_in_vain(make_bench: Make, database: Database) -> None:
    def body(attempt: Attempt) -> None:
        told.bench.ask(Cause.CANCEL)
        began.append(time.monotonic())
        attempt.begin(phases=["a"])
        began.append(time.monotonic())
        attempt.check()

    began: list[float] = []
    told = Narrating(make_bench, body)
    with create_engine(database.url, poolclass=NullPool).connect() as holding:
        holding.execute(text("lock table activity_phases in access exclusive mode"))
        told.go()
    assert [type(error) for error in told.raised] == [Cancelled]
    assert began[1] - began[0] < 0.6, "0.2 s on a quiet machine"


def test_pages_and_phases_go_side_by_side(make_bench: Make, database: Database) -> None:
    def body(attempt: Attempt) -> dict[str, int]:
        cursor = attempt.resume(Step())
        attempt.begin(total=20, phases=["count"])
        attempt.phase("count", total=20)
        while cursor.done < 20:
            with attempt.transaction() as tx:
                cursor = attempt.checkpoint(tx, Step(done=cursor.done + 1), processed=1)
            attempt.progress(attempt.counters.processed)
        return {"done": cursor.done}

    told = Narrating(make_bench, body)
    task = told.go()
    assert told.bench.get(task)["counters"]["processed"] == 20
    assert told.rows() == [("count", "completed", 20, 20, None)]
