"""What a body does through its attempt: pages that commit whole or not at all, stops at safe points, trust."""

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection, text

from tenure.model.kinds import kind
from tenure.model.stops import Cancelled, Cause, LeaseLost, ShuttingDown, Stop
from tenure.runtime import times
from tenure.runtime.attempt import Attempt
from tenure.runtime.backoff import Backoff
from tenure.runtime.seat import boottime_ns
from tests.support.databases import Database
from tests.support.promptness import best_of
from tests.support.slot import Bench, Step, write
from tests.support.until import until

Make = Callable[..., Bench]
SESSIONS = """select count(*) from pg_stat_activity where datname = current_database()
    and application_name like 'tenure attempt %' and state <> 'idle'"""
SLEEPING = SESSIONS.replace("state <> 'idle'", "query like '%pg_sleep%' and state = 'active'")


class Told:
    """A kind whose body is given per test, and what it raised."""

    def __init__(self, make_bench: Make, body: Callable[[Attempt], Any], **options: Any) -> None:
        settings = {name: options.pop(name) for name in ("lease_seconds", "renew_seconds") if name in options}
        self.raised: list[BaseException] = []
        self._body = body
        self.kind = kind("told", **{"max_attempts": 9, **options})(self._run)
        self.bench = make_bench(self.kind, run_on_tasks=1, **settings)

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


def page(attempt: Attempt, cursor: Step, note: str = "") -> Step:
    with attempt.transaction() as tx:
        write(tx, attempt, note)
        return attempt.checkpoint(tx, Step(done=cursor.done + 1), processed=2, failed=1)


# -- pages -----------------------------------------------------------------------------------------------------------


def test_effects_and_checkpoint_of_a_page_commit_together(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        with attempt.transaction() as tx:
            write(tx, attempt)
            attempt.checkpoint(tx, Step(done=1), processed=1)
            assert told.bench.effects() == []
            assert told.bench.rows("select 1 from task_checkpoints") == []
        assert len(told.bench.effects()) == 1
        assert told.bench.rows("select sequence, cursor from task_checkpoints") == [(1, {"done": 1})]

    told = Told(make_bench, body)
    assert told.bench.state(told.go()) == "succeeded"


def test_an_error_in_a_page_rolls_both_back_and_leaves_the_page_before(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        cursor = page(attempt, attempt.resume(Step()))
        with attempt.transaction() as tx:
            write(tx, attempt)
            attempt.checkpoint(tx, Step(done=cursor.done + 1), processed=1)
            raise ValueError("half-way")

    told = Told(make_bench, body)
    told.go()
    assert len(told.bench.effects()) == 1
    assert told.bench.rows("select sequence, cursor, processed from task_checkpoints") == [(1, {"done": 1}, 2)]


@pytest.mark.parametrize("way", ["steal", "expire"])
@pytest.mark.parametrize("moment", ["before the page", "before the checkpoint", "before the commit"])
def test_nothing_of_a_page_is_seen_once_the_lease_is_lost(make_bench: Make, way: str, moment: str) -> None:
    def body(attempt: Attempt) -> None:
        lose = lambda now: moment == now and getattr(told.bench, way)(attempt.task_id)  # noqa: E731
        lose("before the page")
        with attempt.transaction() as tx:
            write(tx, attempt)
            lose("before the checkpoint")
            attempt.checkpoint(tx, Step(done=1), processed=1)
            lose("before the commit")

    told = Told(make_bench, body)
    task = told.go()
    assert [type(error) for error in told.raised] == [LeaseLost]
    assert told.bench.effects() == []
    assert told.bench.rows("select 1 from task_checkpoints") == []
    assert told.bench.state(task) == "running"


def test_a_steal_waits_for_a_page_that_has_passed_its_fence(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        with attempt.transaction() as tx:
            tx.execute(text("select 1 from task_leases for key share"))
            skipped = told.bench.rows("select 1 from task_leases for update skip locked")
            renewed = told.bench.rows("select 1 from task_leases for no key update skip locked")
            found.extend([len(skipped), len(renewed)])

    found: list[int] = []
    told = Told(make_bench, body)
    told.go()
    assert found == [0, 1], "a steal skips the row, a renewal passes beside the page"


def test_entering_a_page_locks_nothing(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        with attempt.transaction():
            found.extend(told.bench.rows("select 1 from task_leases for update skip locked"))

    found: list[Any] = []
    told = Told(make_bench, body)
    told.go()
    assert len(found) == 1


@pytest.mark.parametrize("cause, state", [(Cause.CANCEL, "cancelled"), (Cause.DEADLINE, "failed deadline_exceeded")])
def test_a_stop_in_a_page_is_raised_only_after_its_commit(make_bench: Make, cause: Cause, state: str) -> None:
    def body(attempt: Attempt) -> None:
        with attempt.transaction() as tx:
            told.bench.ask(cause)
            write(tx, attempt)
            attempt.checkpoint(tx, Step(done=1), processed=1)
        raise AssertionError("not reached")

    told = Told(make_bench, body)
    task = told.go()
    assert [type(error).cause for error in told.raised if isinstance(error, Stop)] == [cause]
    assert len(told.bench.effects()) == 1
    assert told.bench.state(task) == state


def test_checkpoints_go_on_counting_after_a_resume(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        cursor = attempt.resume(Step())
        seen.append((cursor.done, attempt.counters.processed, attempt.counters.failed))
        attempt.begin(total=8)
        for _ in range(2):
            cursor = page(attempt, cursor)
        if attempt.number == 1:
            raise ConnectionError("again")

    seen: list[tuple[int, int, int]] = []
    told = Told(make_bench, body)
    task = told.go()
    told.bench.rows("update tasks set state = 'queued', available_at = clock_timestamp()")
    told.bench.run(task)
    assert seen == [(0, 0, 0), (2, 4, 2)]
    assert told.bench.rows("select sequence, cursor, total, processed, succeeded, failed from task_checkpoints") == [
        (4, {"done": 4}, 8, 8, 4, 4)
    ]
    assert told.bench.state(task) == "partially_succeeded"


def test_a_page_that_was_rolled_back_is_done_again_under_the_same_lease(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        try:
            with attempt.transaction() as tx:
                write(tx, attempt)
                attempt.checkpoint(tx, Step(done=1), processed=2, failed=2)
                raise ValueError("the page's own trouble")
        except ValueError:
            page(attempt, Step())
        page(attempt, Step(done=1))

    told = Told(make_bench, body)
    task = told.go()
    assert told.raised == []
    assert len(told.bench.effects()) == 2
    assert told.bench.rows("select sequence, processed, failed from task_checkpoints") == [(2, 4, 2)]
    assert told.bench.state(task) == "partially_succeeded", "decided by what was committed"


def test_a_savepoint_that_was_rolled_back_takes_its_checkpoint_with_it(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        with attempt.transaction() as tx:
            nested = tx.begin_nested()
            attempt.checkpoint(tx, Step(done=9), processed=9)
            nested.rollback()
            write(tx, attempt)
            attempt.checkpoint(tx, Step(done=1), processed=1)
        page(attempt, Step(done=1))

    told = Told(make_bench, body)
    told.go()
    assert told.raised == []
    assert told.bench.rows("select sequence, cursor, processed from task_checkpoints") == [(2, {"done": 2}, 3)]


@pytest.mark.parametrize("way", ["by hand in the page", "on a connection of its own"])
def test_a_commit_that_a_superseded_holder_asks_for_itself_is_refused(make_bench: Make, way: str) -> None:
    def body(attempt: Attempt) -> None:
        if way == "by hand in the page":
            with attempt.transaction() as tx:
                write(tx, attempt)
                told.bench.steal(attempt.task_id)
                tx.commit()
        else:
            with attempt.connection() as own:
                write(own, attempt)
                told.bench.steal(attempt.task_id)
                own.commit()

    told = Told(make_bench, body)
    task = told.go()
    assert [type(error) for error in told.raised] == [LeaseLost]
    assert told.bench.effects() == []
    assert told.bench.state(task) == "running"


def test_a_checkpoint_before_the_plan_step_has_ended_says_what_comes_first(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        page(attempt, Step())

    told = Told(make_bench, body, plans=True, max_attempts=1)
    task = told.go()
    assert told.bench.state(task) == "failed error"
    assert "call attempt.begin() before" in told.bench.get(task)["error"]["message"]


class Place(BaseModel):
    page: int
    at: str


def test_a_cursor_comes_back_as_the_model_it_was_and_another_model_is_refused(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        if attempt.number == 1:
            with attempt.transaction() as tx:
                assert attempt.checkpoint(tx, Place(page=3, at="x"), processed=1) == Place(page=3, at="x")
            raise ConnectionError("again")
        seen.append(attempt.resume(Place(page=0, at="")))
        with pytest.raises(ValidationError):
            attempt.resume(Strict())

    class Strict(BaseModel, extra="forbid"):
        other: int = 0

    seen: list[Place] = []
    told = Told(make_bench, body)
    task = told.go()
    told.bench.rows("update tasks set state = 'queued', available_at = clock_timestamp()")
    told.bench.run(task)
    assert seen == [Place(page=3, at="x")]


def test_counters_may_be_read_within_a_page_of_a_resumed_attempt(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        if attempt.number == 1:
            page(attempt, Step())
            raise ConnectionError("again")
        with attempt.transaction() as tx:
            write(tx, attempt, "second")
            assert attempt.counters.processed == 2
            attempt.fence()
            attempt.checkpoint(tx, Step(done=2), processed=1)

    told = Told(make_bench, body)
    task = told.go()
    told.bench.rows("update tasks set state = 'queued', available_at = clock_timestamp()")
    told.bench.run(task)
    assert told.bench.state(task) == "partially_succeeded"
    assert [note for _, note in told.bench.effects()] == ["", "second"]


@pytest.mark.parametrize("within", [False, True], ids=["apart", "within a page"])
def test_a_mark_is_committed_at_once_and_fenced(make_bench: Make, within: bool) -> None:
    insert = "insert into effects (task_id, token, note) values (:t, 1, :n)"

    def body(attempt: Attempt) -> None:
        assert attempt.mark(insert, {"t": attempt.task_id, "n": "marked"}) == 1
        assert len(told.bench.effects()) == marked
        told.bench.steal(attempt.task_id)
        attempt.mark(insert, {"t": attempt.task_id, "n": "lost"})

    def paged(attempt: Attempt) -> None:
        with attempt.transaction():
            body(attempt)

    marked = 1
    told = Told(make_bench, paged if within else body)
    told.go()
    assert [type(error) for error in told.raised] == [LeaseLost]
    assert [note for _, note in told.bench.effects()] == ["marked"]


def test_a_fence_refuses_an_effect_elsewhere_once_the_lease_is_gone(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        attempt.fence()
        told.bench.steal(attempt.task_id)
        attempt.fence()

    told = Told(make_bench, body)
    told.go()
    assert [type(error) for error in told.raised] == [LeaseLost]


def test_begin_ends_the_plan_step_once_and_only_for_the_holder(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        states.append(told.bench.state(attempt.task_id))
        attempt.begin()
        attempt.begin()
        states.append(told.bench.state(attempt.task_id))
        told.bench.steal(attempt.task_id)
        attempt.begin()

    states: list[str] = []
    told = Told(make_bench, body, plans=True)
    task = told.go()
    assert states == ["validating", "running"]
    assert [type(error) for error in told.raised] == [LeaseLost]
    assert [moment["verb"] for moment in told.bench.get(task)["history"]] == ["submit", "claim", "begin"]


# -- stops -----------------------------------------------------------------------------------------------------------


def waits(attempt: Attempt) -> bool:
    return Backoff(initial=30.0).wait(attempt)


@pytest.mark.parametrize("sleep", [lambda attempt: attempt.sleep(30.0), waits], ids=["sleep", "backoff"])
@pytest.mark.parametrize("way", ["channel", "shutdown"])
def test_a_sleeping_body_hears_the_stop_at_once(make_bench: Make, sleep: Callable[[Attempt], bool], way: str) -> None:
    def lateness() -> float:
        def body(attempt: Attempt) -> None:
            asleep.set()
            answer = sleep(attempt)
            heard.append(time.monotonic())
            assert answer is False
            attempt.check()

        asleep, heard = threading.Event(), list[float]()
        told = Told(make_bench, body, on_shutdown="release")
        running = told.bench.aside(told.bench.submit(told.kind))
        assert asleep.wait(10)
        until(lambda: told.bench.executor._control._attempt is not None, pace=0.001)
        asked = time.monotonic()
        told.bench.ask(Cause.CANCEL) if way == "channel" else told.bench.shutdown.stop()
        running.join(10)
        assert [type(error) for error in told.raised] == [Cancelled if way == "channel" else ShuttingDown]
        return heard[0] - asked

    assert best_of(lateness, 0.1) < 0.1


def test_the_next_attempt_hears_its_stop_as_promptly_as_the_first(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        held.append(attempt)
        if len(held) > 1:
            asked.append(time.monotonic())
            told.bench.ask(Cause.CANCEL)
            assert attempt.sleep(30) is False
            late.append(time.monotonic() - asked[-1])
            attempt.check()
        attempt.sleep(0.01)

    held, asked, late = list[Attempt](), list[float](), list[float]()
    told = Told(make_bench, body)
    for _ in range(6):
        told.go()
    assert min(late) < 0.1
    assert sorted(late)[2] < 0.1, "not only by luck"


def test_a_full_sleep_answers_true(make_bench: Make) -> None:
    answers: list[bool] = []
    told = Told(make_bench, lambda attempt: answers.append(attempt.sleep(0.02)))
    began = time.monotonic()
    told.go()
    assert answers == [True]
    assert time.monotonic() - began >= 0.02


def test_a_kind_that_finishes_on_shutdown_goes_on_within_its_drain(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        told.bench.shutdown.stop()
        told.bench.ask(Cause.SHUTDOWN)
        cursor = Step()
        for _ in range(3):
            assert attempt.is_running()
            cursor = page(attempt, cursor)

    told = Told(make_bench, body, on_shutdown="finish", drain=30.0)
    task = told.go()
    assert told.bench.state(task) == "partially_succeeded"
    assert len(told.bench.effects()) == 3


def test_a_kind_that_finishes_on_shutdown_fails_when_its_drain_is_over(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        told.bench.shutdown.stop()
        assert attempt.is_running()
        assert attempt.sleep(30.0) is False
        attempt.check()

    told = Told(make_bench, body, on_shutdown="finish", drain=0.05)
    began = time.monotonic()
    task = told.go()
    assert time.monotonic() - began < 5
    assert told.bench.state(task) == "failed service_unavailable"


def test_a_cancel_ends_a_draining_attempt_all_the_same(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        told.bench.shutdown.stop()
        attempt.check()
        told.bench.ask(Cause.CANCEL)
        attempt.check()

    told = Told(make_bench, body, on_shutdown="finish", drain=30.0)
    assert told.bench.state(told.go()) == "cancelled"


def test_a_fault_of_a_draining_body_is_its_own(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        told.bench.shutdown.stop()
        told.bench.ask(Cause.SHUTDOWN)
        raise ValueError("a bug")

    told = Told(make_bench, body, on_shutdown="finish", drain=30.0, max_attempts=1)
    task = told.go()
    assert told.bench.state(task) == "failed error"
    assert told.bench.get(task)["error"]["code"] == "ValueError"


def test_a_cancel_outranks_the_shutdown_that_the_body_has_heard_of(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        told.bench.shutdown.stop()
        try:
            attempt.check()
        finally:
            told.bench.ask(Cause.CANCEL)

    told = Told(make_bench, body)
    assert told.bench.state(told.go()) == "cancelled"


def test_a_success_before_the_stop_is_seen_wins(make_bench: Make) -> None:
    told = Told(make_bench, lambda attempt: told.bench.ask(Cause.CANCEL) and {"done": True})
    assert told.bench.state(told.go()) == "succeeded"


def test_a_stop_meant_for_the_task_before_does_not_stop_the_next(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        attempt.check()
        told.bench.ask(Cause.CANCEL)

    told = Told(make_bench, body)
    assert [told.bench.state(told.go()) for _ in range(3)] == ["succeeded"] * 3


# -- trust -----------------------------------------------------------------------------------------------------------


def test_past_its_trust_an_attempt_stops_with_lease_lost_and_writes_nothing(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        assert attempt.sleep(30.0) is False
        attempt.check()

    told = Told(make_bench, body, lease_seconds=0.3, renew_seconds=0.1)
    task = told.go()
    assert [type(error) for error in told.raised] == [LeaseLost]
    assert told.bench.state(task) == "running"
    assert told.bench.sink.ends == []
    assert told.bench.leases() == 1
    assert told.bench.channel.held(0)[0] == 0, "nobody renews it any more"


def test_a_page_begun_in_trust_and_ended_out_of_it_is_rolled_back(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        with attempt.transaction() as tx:
            write(tx, attempt)
            attempt.sleep(30.0)

    told = Told(make_bench, body, lease_seconds=0.3, renew_seconds=0.1)
    told.go()
    assert told.bench.effects() == []


def test_a_fault_past_the_trust_is_not_written_either(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        attempt.sleep(30.0)
        raise ValueError("whatever")

    told = Told(make_bench, body, lease_seconds=0.3, renew_seconds=0.1)
    task = told.go()
    assert told.bench.state(task) == "running"
    assert told.bench.get(task)["error"] is None


def test_a_renewal_prolongs_the_trust(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        assert told.bench.channel.trust(0, attempt.token, boottime_ns() + 60_000_000_000)
        told.bench.rows("update task_leases set expires = clock_timestamp() + interval '60 seconds'")
        assert attempt.sleep(0.4) is True

    told = Told(make_bench, body, lease_seconds=0.3, renew_seconds=0.1)
    assert told.bench.state(told.go()) == "succeeded"


def test_a_claim_that_waited_for_the_database_is_trusted_from_when_it_was_made(
    make_bench: Make, database: Database
) -> None:
    told = Told(make_bench, lambda attempt: attempt.check(), lease_seconds=0.4, renew_seconds=0.1)
    task = told.bench.submit(told.kind)
    database.accept_connections(False)
    running = told.bench.aside(task)
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 0.5)
    database.accept_connections(True)
    running.join(10)
    assert told.bench.state(task) == "succeeded"


# -- connections -----------------------------------------------------------------------------------------------------


def pg_sleep(connection: Connection) -> None:
    connection.execute(text("select pg_sleep(30)"))


def through_connection(attempt: Attempt) -> None:
    with attempt.connection() as connection:
        pg_sleep(connection)


def through_transaction(attempt: Attempt) -> None:
    with attempt.transaction() as tx:
        pg_sleep(tx)


@pytest.mark.parametrize("body", [through_connection, through_transaction])
@pytest.mark.parametrize("way, state", [("channel", "cancelled"), ("shutdown", "queued")])
def test_blocking_sql_is_cancelled_and_the_stop_is_what_is_recorded(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch, body: Callable[[Attempt], None], way: str, state: str
) -> None:
    monkeypatch.setattr(times, "T_SQL_SHUTDOWN", 0.05)
    told = Told(make_bench, body, stop_within=0.05, on_shutdown="release")
    task = told.bench.submit(told.kind)
    running = told.bench.aside(task)
    until(lambda: told.bench.one(SLEEPING) == 1)
    told.bench.ask(Cause.CANCEL) if way == "channel" else told.bench.shutdown.stop()
    running.join(5)
    assert not running.is_alive()
    assert told.bench.state(task) == state
    assert told.bench.leases() == 0


def test_blocking_sql_is_left_alone_while_the_kind_still_has_its_time(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        told.bench.ask(Cause.CANCEL)
        with attempt.connection() as connection:
            connection.execute(text("select pg_sleep(0.3)"))
            answers.append("whole")
        attempt.check()

    answers: list[str] = []
    told = Told(make_bench, body, stop_within=20.0)
    assert told.bench.state(told.go()) == "cancelled"
    assert answers == ["whole"]


def test_connections_are_closed_and_open_transactions_rolled_back_when_the_body_ends(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        for _ in range(3):
            left = attempt.connection()
            contexts.append(left)
            write(left.__enter__(), attempt)

    contexts: list[Any] = []
    told = Told(make_bench, body)
    assert told.bench.state(told.go()) == "succeeded"
    assert told.bench.one(SESSIONS) == 0
    assert told.bench.effects() == []
    assert told.bench.executor._connections._open == []


def test_no_cancel_hits_the_next_attempt_nor_the_connection_for_claims_and_ends(make_bench: Make) -> None:
    def body(attempt: Attempt) -> None:
        if attempt.task_id == first:
            told.bench.ask(Cause.CANCEL)
            time.sleep(0.05)  # deaf until the control thread is cancelling
            attempt.check()
        with attempt.connection() as connection:
            connection.execute(text("select pg_sleep(0.2)"))

    told = Told(make_bench, body, stop_within=0.01)
    first = told.bench.submit(told.kind)
    told.bench.run(first)
    connections = told.bench.executor._connections
    following = told.bench.submit(told.kind)
    running = told.bench.aside(following)
    until(lambda: told.bench.one(SLEEPING) == 1, pace=0.005)
    assert connections.cancel(lambda: False) == 0
    running.join(5)
    assert [told.bench.state(task) for task in (first, following)] == ["cancelled", "succeeded"]
    hot = told.bench.executor._hot
    assert hot.session.driver.info.backend_pid not in {
        one.connection.driver_connection.info.backend_pid
        for one in connections._open  # type: ignore[union-attr]
    }
