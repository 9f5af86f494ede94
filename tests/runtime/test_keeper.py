"""The keeper, stepped: it renews what slots hold, carries stops to them, and settles what a dead child held."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Line
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from tenure.model.kinds import kind
from tenure.model.records import Holder
from tenure.model.stops import Cause
from tenure.registry import Registry
from tenure.runtime.attempt import Attempt
from tenure.runtime.channel import StopChannel
from tenure.runtime.health import Health
from tenure.runtime.instance import start_ticks
from tenure.runtime.keeper import Keeper
from tenure.runtime.metrics import Metrics
from tenure.runtime.seat import Seat, Word, boottime_ns
from tenure.settings import Settings
from tenure.store.hot import HotSession
from tenure.store.workers import Boot
from tests.support.databases import Database
from tests.support.forks import Child, forked
from tests.support.proxy import Proxy
from tests.support.slot import Bench

Make = Callable[..., Bench]
SLOTS = 4


@kind("kept", on_lost="resume", on_shutdown="release")
def kept(attempt: Attempt, params: object) -> None:
    pass


class Main:
    """A worker's main process with a keeper, and children that are seats of this process."""

    def __init__(self, bench: Bench, home: Path, *, url: str | None = None, **options: Any) -> None:
        self.bench = bench
        self.settings = Settings(**{"database_url": url or bench.settings.client_url, "home": home, **options})
        self.channel = StopChannel(SLOTS)
        self.boot = Boot(bench.holder.worker, "node", "worker", os.getpid(), "1", SLOTS, ["default"], ["kept"])
        known, health = Registry([kept]), Health(home, "worker")
        self.keeper = Keeper(self.settings, self.channel, self.boot, known, Metrics(), health)

    def session(self, pid: int | None = None) -> HotSession:
        holder = Holder(self.boot.boot_id, pid or os.getpid())
        return HotSession(self.bench.settings.session_url, holder, ["kept"], lease_seconds=30.0)

    def claim(self, slot: int | None = None, **options: Any) -> tuple[UUID, int, Seat | None]:
        """A task claimed, and held in the slot if one is given."""
        task = self.bench.submit(kept, **options)
        session = self.session()
        claimed = session.claim(task)
        session.close()
        assert claimed is not None
        seat = None
        if slot is not None:
            seat = self.channel.seat(slot)
            seat.hold(claimed.lease.token, boottime_ns() + 1_000_000)
        return task, claimed.lease.token, seat

    def age(self, seconds: float = 6.0) -> None:
        """Let that much of every lease pass."""
        self.bench.rows(
            """update task_leases set acquired = acquired - make_interval(secs => :s),
               renewed = renewed - make_interval(secs => :s), expires = expires - make_interval(secs => :s)""",
            s=seconds,
        )

    def left(self) -> dict[UUID, float]:
        """Seconds to each lease's expiry."""
        return dict(
            self.bench.rows("select task_id, extract(epoch from expires - clock_timestamp())::float8 from task_leases")
        )

    def renew_now(self) -> float:
        self.keeper._renew_at = 0.0
        return self.keeper.run_once()


@pytest.fixture
def main(make_bench: Make, tmp_path: Path) -> Iterator[Main]:
    made = Main(make_bench(kept), tmp_path)
    yield made
    made.keeper.close()


def test_it_renews_what_stands_in_a_slot_and_what_has_just_been_claimed(main: Main) -> None:
    held, _, _ = main.claim(0)
    forgotten, _, _ = main.claim()
    main.age()
    young, _, _ = main.claim()
    main.age(1.0)
    main.keeper.run_once()
    left = main.left()
    assert left[held] > 29
    assert left[young] > 29
    assert left[forgotten] < 24


def test_it_renews_no_lease_of_another_worker(main: Main, make_bench: Make) -> None:
    other = make_bench(kept)
    task = other.submit(kept)
    assert other.executor._hot.claim(task) is not None
    main.age(1.0)
    main.keeper.run_once()
    assert main.left()[task] < 29.5


def test_a_renewal_carries_the_trust_of_its_slot_forward(main: Main) -> None:
    _, _, seat = main.claim(0)
    assert seat is not None
    began = boottime_ns()
    main.keeper.run_once()
    assert seat.trusted()
    assert began + 29_000_000_000 < seat._hold.trusted_until_ns <= boottime_ns() + 30_000_000_000


def test_a_token_that_is_gone_from_the_database_is_told_to_stop(main: Main) -> None:
    task, _, lost = main.claim(0)
    _, _, fine = main.claim(1)
    main.bench.steal(task)
    main.keeper.run_once()
    assert lost is not None
    assert fine is not None
    assert lost.stop_cause() == Cause.LEASE_LOST
    assert fine.stop_cause() == 0


def test_a_lease_that_has_expired_is_neither_renewed_nor_trusted_longer(main: Main) -> None:
    task, _, seat = main.claim(0)
    main.bench.expire(task)
    main.keeper.run_once()
    assert main.left()[task] < 0
    assert seat is not None
    time.sleep(0.002)
    assert not seat.trusted()


def test_a_row_that_somebody_locks_keeps_its_old_trust_and_holds_nobody_up(main: Main) -> None:
    locked, _, seat = main.claim(0)
    free, _, other = main.claim(1)
    main.age(1.0)
    assert seat is not None
    assert other is not None
    known = seat._hold.trusted_until_ns
    with main.bench.engine.begin() as connection:
        connection.execute(text("select 1 from task_leases where task_id = :t for update"), {"t": locked})
        began = time.monotonic()
        main.keeper.run_once()
        took = time.monotonic() - began
    assert took < 0.9, "it waited for the lock"
    assert seat.stop_cause() == 0
    assert other.trusted()
    seat.trusted()
    assert seat._hold.trusted_until_ns == known
    assert main.left()[locked] < 29.5 < main.left()[free]


def test_a_page_that_is_just_committing_does_not_hold_up_its_renewal(main: Main) -> None:
    task, _, _ = main.claim(0)
    main.age(1.0)
    with main.bench.engine.begin() as connection:
        connection.execute(text("select 1 from task_leases where task_id = :t for key share"), {"t": task})
        main.keeper.run_once()
    assert main.left()[task] > 29


def test_a_cancel_request_reaches_the_slot_in_the_next_look(main: Main) -> None:
    task, _, seat = main.claim(0)
    _, _, other = main.claim(1)
    main.keeper.run_once()
    assert seat is not None
    assert other is not None
    assert seat.stop_cause() == 0
    main.bench.cancel(task)
    main.keeper.run_once()
    assert seat.stop_cause() == Cause.CANCEL
    assert other.stop_cause() == 0


def test_a_deadline_reaches_the_slot_by_the_databases_clock(main: Main) -> None:
    task, _, seat = main.claim(0)
    assert seat is not None
    main.bench.rows("update task_leases set deadline = clock_timestamp() where task_id = :t", t=task)
    main.keeper.run_once()
    assert seat.stop_cause() == Cause.DEADLINE


@contextmanager
def holding(main: Main, slot: int) -> Iterator[tuple[Child, UUID]]:
    """A forked child that has claimed a task and holds it in the slot."""
    task = main.bench.submit(kept)
    url, worker, channel = main.bench.settings.session_url, main.boot.boot_id, main.channel

    def body(line: Line) -> None:
        session = HotSession(url, Holder(worker, os.getpid()), ["kept"], lease_seconds=30.0)
        claimed = session.claim(task)
        assert claimed is not None
        channel.seat(slot).hold(claimed.lease.token)
        line.send(claimed.lease.token)
        line.recv()

    with forked(body) as child:
        child.hear()
        yield child, task


def test_what_a_dead_child_held_is_settled_at_once_and_its_slot_forgotten(main: Main) -> None:
    _, _, alive = main.claim(1)
    with holding(main, 0) as (child, task):
        main.keeper.run_once()
        assert main.bench.state(task) == "running"
        child.kill()
        main.keeper.run_once()
    assert main.bench.state(task) == "queued"
    assert main.bench.get(task)["crashes"] == 1
    assert main.bench.hints() == [task, *main.bench.hints()[1:]] or task in main.bench.hints()
    assert main.channel.held(0)[0] == 0
    assert alive is not None
    assert alive.stop_cause() == 0
    assert main.bench.leases() == 1


def test_a_child_that_is_dead_but_not_collected_counts_as_dead(main: Main) -> None:
    with holding(main, 0) as (child, task):
        os.kill(child.pid, 9)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        main.keeper.run_once()
        assert main.bench.state(task) == "queued"


def test_a_later_process_with_the_pid_of_a_dead_child_does_not_count_as_it(main: Main) -> None:
    task, token, _ = main.claim(0)
    main.keeper.run_once()
    assert main.bench.state(task) == "running"
    words = main.channel._slots[0].words
    assert words[Word.STARTED] == start_ticks(os.getpid()) > 0
    words[Word.STARTED] -= 1  # the holder was another, and its pid is ours now
    main.keeper.run_once()
    assert main.bench.state(task) == "queued"
    assert main.channel.held(0)[0] == 0
    assert not main.channel.alive(0, token, os.getpid())


def test_a_dead_childs_slot_is_kept_in_mind_until_its_lease_can_be_settled(main: Main) -> None:
    with holding(main, 0) as (child, task), main.bench.engine.connect() as connection:
        with connection.begin():
            connection.execute(text("select 1 from task_leases where task_id = :t for key share"), {"t": task})
            child.kill()
            main.keeper.run_once()
            assert main.bench.state(task) == "running"
            assert main.channel.held(0)[0] != 0
        main.keeper.run_once()
    assert main.bench.state(task) == "queued"
    assert main.channel.held(0)[0] == 0


@pytest.mark.parametrize(
    "cause, state",
    [(Cause.CANCEL, "cancelled"), (Cause.DEADLINE, "failed deadline_exceeded"), (Cause.SHUTDOWN, "queued")],
)
def test_a_child_that_died_after_it_was_asked_to_stop_is_settled_as_asked_and_marked_forced(
    main: Main, cause: Cause, state: str
) -> None:
    with holding(main, 0) as (child, task):
        token, _ = main.channel.held(0)
        main.channel.ask(0, token, cause)
        child.kill()
        main.keeper.run_once()
    assert main.bench.state(task) == state
    (attempt,) = main.bench.get(task)["attempts"]
    assert attempt["forced"] is True
    assert main.bench.get(task)["crashes"] == 0


def test_its_worker_row_is_registered_seen_and_ended(main: Main) -> None:
    main.claim(0)
    main.keeper.run_once()
    row = main.bench.first("select node, slots, ended_at, split_part(work, ', ', 1) from workers")
    assert tuple(row) == ("node", SLOTS, None, "1 running")
    main.keeper.close()
    assert main.bench.one("select count(*) from workers where ended_at is not null") == 1


@pytest.mark.parametrize("running", [0, SLOTS])
def test_it_makes_at_most_two_statements_a_second_idle_or_busy(
    make_bench: Make, database: Database, tmp_path: Path, running: int
) -> None:
    with Proxy(database.url) as proxy:
        main = Main(make_bench(kept), tmp_path, url=proxy.url)
        for slot in range(running):
            main.claim(slot)
        main.keeper.run_once()
        proxy.statements.clear()
        seconds = 10
        for second in range(seconds):
            if second % main.settings.renew_seconds == 0:
                main.keeper._renew_at = 0.0
            assert main.keeper.run_once() == main.settings.watch_seconds
        made = list(proxy.statements)
        main.keeper.close()
    assert any(b"for no key update skip locked" in one for one in made)
    assert len(made) <= 2 * seconds, made


def test_what_a_live_thread_has_left_behind_is_settled_and_named(main: Main) -> None:
    left, token, _ = main.claim()
    held, _, _ = main.claim(0)
    main.age()
    with capture_logs() as logs:
        main.keeper.run_once()
        assert main.bench.state(left) == "running", "one look does not tell it from a claim under way"
        main.keeper.run_once()
        assert main.bench.state(left) == "running", "its thread is busy: it may be the batch of it"
        main.channel.forget(0, main.channel.held(0)[0])
        main.keeper.run_once()
        main.keeper.run_once()
    assert main.bench.state(left) == "queued"
    assert main.bench.one("select count(*) from task_leases where token = :k", k=token) == 0
    named = {one["task_id"]: one["log_level"] for one in logs if one["event"] == "left_behind"}
    assert named == {str(left): "error", str(held): "error"}


def test_a_young_claim_is_left_alone(main: Main) -> None:
    young, _, _ = main.claim()
    for _ in range(3):
        main.keeper.run_once()
    assert main.bench.state(young) == "running"
