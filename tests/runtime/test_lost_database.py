"""The database goes away under a body: its task is settled as a lost worker's, once the database is back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg2
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tenure.migrate import migrate
from tenure.model.kinds import KindSpec, kind
from tenure.model.stops import Cause
from tenure.runtime.attempt import Attempt
from tests.support.databases import Database
from tests.support.servers import OwnServers
from tests.support.slot import Bench, Step, write
from tests.support.until import until

Make = Callable[..., Bench]
END_ATTEMPTS = """select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where application_name like 'tenure attempt %' and datname = current_database()"""
END_CHILD = END_ATTEMPTS.replace("attempt %", "child %")


class Life:
    """A body that loses its database in its second page, and what the test does meanwhile."""

    def __init__(self, **options: object) -> None:
        self.spec = KindSpec("losing", **{"max_attempts": 5, **options})  # type: ignore[arg-type]
        self.meanwhile: Callable[[Attempt], None] = lambda attempt: None
        self.seen: list[int] = []

    def body(self, attempt: Attempt, params: object) -> None:
        cursor = attempt.resume(Step())
        self.seen.append(cursor.done)
        while cursor.done < 3:
            with attempt.transaction() as tx:
                write(tx, attempt, str(cursor.done))
                if len(self.seen) == 1 and cursor.done == 1:
                    self.meanwhile(attempt)
                    bench_of(attempt).rows(END_ATTEMPTS)
                cursor = attempt.checkpoint(tx, Step(done=cursor.done + 1), processed=1)


_benches: dict[UUID, Bench] = {}


def bench_of(attempt: Attempt) -> Bench:
    return _benches[attempt.lease.holder.worker]


@contextmanager
def living(make_bench: Make, life: Life, **options: object) -> Iterator[tuple[Bench, UUID]]:
    body = kind(life.spec)(life.body)
    bench = make_bench(body, **{"run_on_tasks": 1, **options})
    _benches[bench.holder.worker] = bench
    try:
        yield bench, bench.submit(body)
    finally:
        del _benches[bench.holder.worker]


def test_a_kind_that_resumes_goes_on_from_its_checkpoint_and_the_crash_is_counted(make_bench: Make) -> None:
    life = Life(on_lost="resume")
    with living(make_bench, life) as (bench, task):
        assert bench.run(task) == 1
        assert bench.state(task) == "queued"
        assert bench.hints() == [task]
        assert bench.leases() == 0
        assert bench.drain() == 1
        row = bench.get(task)
    assert (row["state"], row["attempt"], row["crashes"]) == ("succeeded", 2, 1)
    assert life.seen == [0, 1]
    assert bench.effects() == [(task, "0"), (task, "1"), (task, "2")]
    assert [one["how"] for one in row["attempts"]] == ["lost", "succeeded"]
    assert [(how.verb, how.state) for _, how in bench.sink.ends] == [("recover", "queued"), ("succeed", "succeeded")]


def test_a_kind_that_does_not_resume_fails_as_worker_lost_never_as_an_error(make_bench: Make) -> None:
    with living(make_bench, Life(on_lost="fail")) as (bench, task):
        assert bench.run(task) == 1
        row = bench.get(task)
    assert (row["state"], row["outcome"], row["error"]["code"]) == ("failed", "worker_lost", "worker_lost")
    assert row["error"]["message"] == "its worker lost the database; nothing that was not committed before counts"
    assert bench.effects() == [(task, "0")]


def test_a_cancel_that_was_asked_is_what_is_recorded(make_bench: Make) -> None:
    life = Life(on_lost="resume")
    life.meanwhile = lambda attempt: bench.cancel(attempt.task_id)
    with living(make_bench, life) as (bench, task):
        bench.run(task)
        assert bench.state(task) == "cancelled"
    assert bench.leases() == 0


def test_a_deadline_that_has_passed_is_what_is_recorded(make_bench: Make) -> None:
    life = Life(on_lost="resume")
    life.meanwhile = lambda attempt: bench.rows("update task_leases set deadline = clock_timestamp()") and None
    with living(make_bench, life) as (bench, task):
        bench.run(task)
        assert bench.state(task) == "failed deadline_exceeded"


def test_the_crash_bound_ends_it(make_bench: Make) -> None:
    life = Life(on_lost="resume")
    with living(make_bench, life, crash_bound=1) as (bench, task):
        bench.run(task)
        assert bench.state(task) == "failed worker_lost"


def test_a_stop_in_the_slot_decides_before_the_lost_connection(make_bench: Make) -> None:
    life = Life(on_lost="resume")
    life.meanwhile = lambda attempt: bench.ask(Cause.CANCEL) and None
    with living(make_bench, life) as (bench, task):
        bench.run(task)
        assert bench.state(task) == "cancelled"
        assert [how.verb for _, how in bench.sink.ends] == ["acknowledge_cancel"]


def test_a_stolen_lease_is_left_alone(make_bench: Make) -> None:
    life = Life(on_lost="resume")
    life.meanwhile = lambda attempt: bench.steal(attempt.task_id)
    with living(make_bench, life) as (bench, task):
        bench.run(task)
        assert bench.state(task) == "running"
        assert bench.leases() == 1
    assert bench.sink.ends == []


def test_losing_the_hot_connection_under_a_body_changes_nothing(make_bench: Make) -> None:
    @kind("steady", on_lost="fail")
    def steady(attempt: Attempt, params: object) -> None:
        bench.rows(END_CHILD)
        with attempt.transaction() as tx:
            write(tx, attempt)

    bench = make_bench(steady)
    task = bench.submit(steady)
    assert bench.run(task) == 1
    assert bench.state(task) == "succeeded"
    assert bench.effects() == [(task, "")]


def test_losing_the_hot_connection_before_begin_is_a_lost_worker_too(make_bench: Make) -> None:
    @kind("planning", on_lost="resume", plans=True)
    def planning(attempt: Attempt, params: object) -> None:
        if attempt.number == 1:
            bench.rows(END_CHILD)
        attempt.begin()

    bench = make_bench(planning)
    task = bench.submit(planning)
    bench.run(task)
    bench.drain()
    row = bench.get(task)
    assert (row["state"], row["crashes"]) == ("succeeded", 1)
    assert [moment["verb"] for moment in row["history"]] == [
        *("submit", "claim", "recover", "claim", "begin", "succeed")
    ]


def test_an_error_of_somebody_elses_database_is_the_bodys_own(make_bench: Make) -> None:
    @kind("foreign", on_lost="resume", max_attempts=1)
    def foreign(attempt: Attempt, params: object) -> None:
        psycopg2.connect(host="127.0.0.1", port=1, connect_timeout=1)

    bench = make_bench(foreign)
    task = bench.submit(foreign)
    bench.run(task)
    assert bench.state(task) == "failed error"
    assert bench.get(task)["error"]["code"] == "OperationalError"


def test_a_wrapped_error_of_the_lost_database_is_recognised(make_bench: Make) -> None:
    @kind("wrapping", on_lost="fail")
    def wrapping(attempt: Attempt, params: object) -> None:
        with attempt.connection() as connection:
            bench.rows(END_ATTEMPTS)
            try:
                connection.execute(text("select 1"))
            except Exception as error:
                raise RuntimeError("mine") from error

    bench = make_bench(wrapping)
    task = bench.submit(wrapping)
    bench.run(task)
    assert bench.state(task) == "failed worker_lost"


def test_a_body_that_survives_the_loss_ends_as_it_says(make_bench: Make) -> None:
    @kind("surviving")
    def surviving(attempt: Attempt, params: object) -> None:
        try:
            with attempt.connection() as connection:
                bench.rows(END_ATTEMPTS)
                connection.execute(text("select 1"))
        except OperationalError:
            survived.append(attempt.task_id)
        with attempt.transaction() as tx:
            write(tx, attempt)
        if failing:
            raise ValueError("a fault of its own")

    failing, survived = False, list[UUID]()
    bench = make_bench(surviving)
    task = bench.submit(surviving)
    bench.run(task)
    assert bench.state(task) == "succeeded"
    failing = True
    task = bench.submit(surviving)
    bench.run(task)
    assert bench.state(task) == "failed error"
    assert bench.get(task)["error"]["code"] == "ValueError"
    assert len(survived) == 2


def test_the_end_waits_until_postgresql_is_back(make_bench: Make) -> None:
    with OwnServers(valkey=False) as servers:
        migrate(servers.database_url)
        own = Database.__new__(Database)
        own.url = servers.database_url
        own._engine = create_engine(servers.database_url, pool_pre_ping=True)

        @kind("outliving", on_lost="resume")
        def outliving(attempt: Attempt, params: object) -> None:
            with attempt.transaction() as tx:
                if attempt.number == 1 and attempt.task_id == task:
                    servers.kill_postgres()
                write(tx, attempt)

        bench = Bench(own, outliving)
        try:
            task, following = bench.submit(outliving), bench.submit(outliving)
            running = bench.aside(task)
            until(lambda: not servers._postgres.alive())
            servers.start_postgres()
            until(lambda: bench.state(task) == "succeeded" and bench.state(following) == "succeeded")
            running.join(5)
            assert not running.is_alive()
            assert dict(bench.rows("select id, crashes from tasks")) == {task: 1, following: 0}
            assert len(bench.effects()) == 2
        finally:
            bench.close()
            own._engine.dispose()
