"""The end of an attempt is written whatever happens at that moment: its activity is not left open, and its slot is free."""

import time
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from sqlalchemy import Integer, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from structlog.testing import capture_logs

from tenure.migrate import migrate
from tenure.model.items import Item
from tenure.model.kinds import kind
from tenure.model.records import Claimed
from tenure.runtime.attempt import Attempt
from tenure.runtime.instance import alive
from tenure.services.reaper import Reaper
from tests.support.databases import Database
from tests.support.proxy import Cut, Proxy, Where
from tests.support.servers import OwnServers
from tests.support.slot import FULL, Bench, Recorder, Step
from tests.support.until import until

Make = Callable[..., Bench]
AWAY_S = 10.0 if FULL else 1.6
SHORT_LEASE_S = 3.0 if FULL else 1.0


class Base(DeclarativeBase):
    """Of the one table below."""


class Thing(Base):
    __tablename__ = "things"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)


@kind("breaking", on_lost="fail")
def breaking(attempt: Attempt, params: object) -> None:
    raise LookupError("a fault of its own")


@kind("deciding", on_lost="fail")
def deciding(attempt: Attempt, params: object) -> None:
    with attempt.transaction() as tx:
        attempt.items(tx, [Item("updated"), Item("updated", error="Odd")])
        attempt.checkpoint(tx, Step(done=1), processed=2)


@kind("quiet")
def quiet(attempt: Attempt, params: object) -> dict[str, int]:
    return {"done": 1}


@kind("resuming", on_lost="resume", max_attempts=3)
def resuming(attempt: Attempt, params: object) -> None:
    if attempt.number == 1:
        raise LookupError("again")


def ended(bench: Bench, task: UUID) -> tuple[str, str]:
    assert bench.leases() == 0
    status = bench.one("select a.status from activities a join tasks k on k.activity_id = a.id where k.id = :t", t=task)
    return bench.state(task), status


def assert_free(bench: Bench) -> None:
    """The slot holds nothing, and the next task is run in it."""
    assert bench.channel.held(0)[0] == 0
    task = bench.submit(quiet)
    bench.run(task)
    assert ended(bench, task) == ("succeeded", "complete")


@pytest.mark.parametrize("swallowed", [True, False])
def test_a_session_poisoned_by_a_failed_flush(make_bench: Make, swallowed: bool) -> None:
    @kind("poisoning")
    def poisoning(attempt: Attempt, params: object) -> None:
        with attempt.transaction() as tx:
            attempt.items(tx, [Item("added")])
            with Session(bind=tx) as session:
                session.add_all([Thing(id=1), Thing(id=1)])
                try:
                    session.flush()
                except Exception:
                    if not swallowed:
                        raise
            attempt.checkpoint(tx, Step(done=1), processed=1)

    bench = make_bench(poisoning, quiet)
    bench.rows("create table if not exists things (id integer primary key)")
    task = bench.submit(poisoning)
    bench.run(task)
    assert ended(bench, task) == ("failed error", "failed")
    assert bench.one("select count(*) from activity_items") == 0
    assert_free(bench)


@pytest.mark.parametrize("where", list(Where))
@pytest.mark.parametrize("body", [breaking, deciding], ids=lambda body: body.spec.name)
def test_the_connection_killed_at_the_moment_of_the_write(
    make_bench: Make, database: Database, body: object, where: Where
) -> None:
    assert body in (breaking, deciding)
    marker = b"execute tenure_finish (" if body is breaking else b"execute tenure_decide"
    wanted = ("failed error", "failed") if body is breaking else ("partially_succeeded", "complete_with_warning")
    with Proxy(database.url) as proxy:
        bench = make_bench(breaking, deciding, quiet, url=proxy.url, run_on_tasks=1)
        for after in range(0, 240, 16 if FULL else 80):
            proxy.arm(Cut(marker, where, after=after))
            task = bench.submit(body)  # type: ignore[arg-type]
            bench.run(task)
            assert not proxy.disarm()
            assert ended(bench, task) == wanted
            assert bench.get(task)["crashes"] == 0
        assert_free(bench)


def test_the_backend_terminated_before_the_write(make_bench: Make) -> None:
    @kind("lonely")
    def lonely(attempt: Attempt, params: object) -> None:
        bench.rows(
            """select pg_terminate_backend(pid, 5000) from pg_stat_activity
               where application_name like 'tenure child %' and datname = current_database()"""
        )
        raise LookupError("and then a fault")

    bench = make_bench(lonely, quiet)
    task = bench.submit(lonely)
    bench.run(task)
    assert ended(bench, task) == ("failed error", "failed")
    assert_free(bench)


class Away:
    """A server of its own, that can be away for a while."""

    def __init__(self, servers: OwnServers) -> None:
        self.servers = servers
        self.database = Database.__new__(Database)
        self.database.url = servers.database_url
        self.database._engine = create_engine(servers.database_url, pool_pre_ping=True)


@pytest.fixture(scope="module")
def away() -> Iterator[Away]:
    with OwnServers(valkey=False) as servers:
        migrate(servers.database_url)
        made = Away(servers)
        yield made
        made.database._engine.dispose()  # type: ignore[union-attr]


@pytest.mark.parametrize("lease_seconds", [30.0, SHORT_LEASE_S], ids=["within the lease", "beyond the lease"])
def test_the_database_away_at_the_moment_of_the_write(away: Away, lease_seconds: float) -> None:
    @kind("cut-off", on_lost="fail")
    def cut_off(attempt: Attempt, params: object) -> None:
        session = attempt._session.backend.pid
        assert alive(session)
        away.servers.kill_postgres()
        until(lambda: not alive(session))  # it outlives its parent for a moment, long enough to take the end
        raise LookupError("while the database is away")

    bench = Bench(away.database, cut_off, quiet, lease_seconds=lease_seconds, renew_seconds=lease_seconds / 3)
    try:
        task = bench.submit(cut_off)
        running = bench.aside(task)
        until(lambda: not away.servers._postgres.alive())
        gone = time.monotonic()
        until(lambda: time.monotonic() - gone >= AWAY_S, AWAY_S + 1)
        away.servers.start_postgres()
        running.join(10)
        assert not running.is_alive()
        if lease_seconds < AWAY_S:  # nobody renewed it: its end was refused, and the sweep settles it
            Reaper(bench.settings).run_once()
            assert ended(bench, task) == ("failed worker_lost", "failed")
        else:
            assert ended(bench, task) == ("failed error", "failed")
        assert bench.first(
            "select ended_at - created_at > interval '0.9 s' from task_attempts where task_id = :t", t=task
        )[0]
        assert_free(bench)
    finally:
        bench.close()


def refuse(bench: Bench, *tables: str) -> None:
    for table in tables:
        bench.rows(f"alter table {table} add constraint refused check (false) not valid")


def allow(bench: Bench, *tables: str) -> None:
    for table in tables:
        bench.rows(f"alter table {table} drop constraint refused")


HISTORY = ("task_events", "task_attempts")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (breaking, ("failed error", "failed")),
        (deciding, ("partially_succeeded", "complete_with_warning")),
        (quiet, ("succeeded", "complete")),
        (resuming, ("queued", "in_progress")),
    ],
    ids=lambda value: value.spec.name if hasattr(value, "spec") else "",
)
def test_an_end_that_history_refuses_is_written_without_it(
    make_bench: Make, body: object, wanted: tuple[str, str]
) -> None:
    holds: list[Claimed] = []

    class Refusing(Recorder):
        def started(self, claimed: Claimed) -> None:
            holds.append(claimed)
            refuse(bench, *HISTORY)

    bench = make_bench(breaking, deciding, quiet, resuming, run_on_tasks=1)
    bench.executor._sink = Refusing()
    task = bench.submit(body)  # type: ignore[arg-type]
    try:
        with capture_logs() as logs:
            bench.run(task)
    finally:
        allow(bench, *HISTORY)
    bench.executor._sink = bench.sink
    assert ended(bench, task) == wanted
    assert len(holds) == 1
    said = [one["event"] for one in logs if one["log_level"] == "error" and one["event"].startswith("end_")]
    assert set(said) == {"end_not_storable", "end_refused_by_the_database"}
    if body is quiet:
        assert bench.get(task)["result"] == {"done": 1}
    assert_free(bench)


def test_an_end_that_nothing_can_write_is_said_and_left_to_recovery(make_bench: Make) -> None:
    class Refusing(Recorder):
        def started(self, claimed: Claimed) -> None:
            refuse(bench, "tasks")

    bench = make_bench(breaking, quiet, run_on_tasks=1)
    bench.executor._sink = Refusing()
    task = bench.submit(breaking)
    try:
        with capture_logs() as logs:
            bench.run(task)
    finally:
        allow(bench, "tasks")
    bench.executor._sink = bench.sink
    assert [one["event"] for one in logs if one["log_level"] == "critical"] == ["end_not_written"]
    assert bench.channel.held(0)[0] == 0, "nobody renews it any more"
    bench.expire(task)
    Reaper(bench.settings).run_once()
    assert ended(bench, task) == ("failed worker_lost", "failed")
    assert_free(bench)


def test_recovery_goes_on_when_history_refuses_its_lines(make_bench: Make) -> None:
    bench = make_bench(breaking, quiet)
    task = bench.submit(breaking)
    assert bench.executor._hot.claim(task) is not None
    bench.expire(task)
    refuse(bench, *HISTORY)
    try:
        with capture_logs() as logs:
            Reaper(bench.settings).run_once()
    finally:
        allow(bench, *HISTORY)
    assert "recovery_without_history" in [one["event"] for one in logs]
    assert ended(bench, task) == ("failed worker_lost", "failed")


@pytest.mark.parametrize("on_lost", ["fail", "resume"])
def test_a_body_that_takes_its_own_epilogue_away_is_settled_and_named(make_bench: Make, on_lost: str) -> None:
    @kind("sabotaging", on_lost=on_lost, max_attempts=3)  # type: ignore[arg-type]
    def sabotaging(attempt: Attempt, params: object) -> None:
        if attempt.number == 1:
            attempt.close = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]

    bench = make_bench(sabotaging, quiet, run_on_tasks=1)
    task = bench.submit(sabotaging)
    with capture_logs() as logs, pytest.raises(ZeroDivisionError):
        bench.run(task)
    left = [one for one in logs if one["event"] == "left_behind"]
    assert [(one["log_level"], one["task_id"], one["error"]) for one in left] == [
        ("error", str(task), "ZeroDivisionError")
    ]
    if on_lost == "resume":
        assert ended(bench, task) == ("queued", "in_progress")
        bench.drain()
        assert ended(bench, task) == ("succeeded", "complete")
    else:
        assert ended(bench, task) == ("failed worker_lost", "failed")
    assert_free(bench)
