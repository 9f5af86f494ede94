"""client.wait: the task once it has ended, from whatever opens a session, through a short absence of the database."""

import threading
import time
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest
from sqlalchemy.orm import sessionmaker

from tenure import client, waiting
from tenure.model.errors import DatabaseUnavailable, NoSuchTask, NotEnded, UsageError
from tenure.model.kinds import NoParams, kind
from tenure.model.retry import Reject, Retry, RetryPolicy
from tenure.runtime.attempt import Attempt
from tests.support.databases import Database
from tests.support.slot import Bench
from tests.support.until import until


@kind("waited.for")
def answering(attempt: Attempt, params: NoParams) -> dict[str, int]:
    return {"answer": 42}


@kind("waited.for_in_vain")
def rejecting(attempt: Attempt, params: NoParams) -> None:
    raise Reject("nobody wants it")


ONCE = RetryPolicy(initial=0.001, on=(ConnectionError,))


@kind("waited.flaky", max_attempts=3, retry=ONCE)
def flaky(attempt: Attempt, params: NoParams) -> None:
    raise (ConnectionError, KeyError)[attempt.number - 1]("of no use twice")


@kind("waited.later", max_attempts=2)
def later(attempt: Attempt, params: NoParams) -> None:
    if attempt.number == 1:
        raise Retry("the other side is busy", after=3600)


@pytest.fixture
def bench(database: Database) -> Iterator[Bench]:
    made = Bench(database, answering, rejecting, flaky, later)
    yield made
    made.close()


SOURCES: dict[str, Callable[[Database], waiting.Source]] = {
    "a URL": lambda database: database.url,
    "an engine": lambda database: database.engine,
    "a sessionmaker": lambda database: sessionmaker(database.engine),
    "connect": lambda database: database.engine.connect,
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_task_that_ends_while_somebody_waits_is_answered_whole(bench: Bench, database: Database, source: str) -> None:
    task_id = bench.submit(answering)
    thread = threading.Timer(0.05, bench.run, (task_id,))
    thread.start()
    task = client.wait(SOURCES[source](database), task_id, 20)
    thread.join()
    assert (task["state"], task["result"], task["id"]) == ("succeeded", {"answer": 42}, task_id)
    assert [one["verb"] for one in task["history"]] == ["submit", "claim", "succeed"]


def test_a_task_that_failed_is_answered_with_its_error(bench: Bench, database: Database) -> None:
    task_id = bench.submit(rejecting)
    bench.run(task_id)
    task = client.wait(database.engine, task_id, 0)
    assert (task["state"], task["outcome"], task["error"]["message"]) == ("failed", "rejected", "nobody wants it")


def test_a_task_that_does_not_end_in_time_goes_on(bench: Bench, database: Database) -> None:
    task_id, began = bench.submit(answering), time.monotonic()
    with pytest.raises(NotEnded, match=rf"task {task_id} has not ended in 0\.2 s"):
        client.wait(database.engine, task_id, 0.2)
    assert 0.2 <= time.monotonic() - began < 5
    assert bench.state(task_id) == "queued"


def test_what_is_not_there_or_cannot_be_waited_with_is_refused(bench: Bench, database: Database) -> None:
    with pytest.raises(NoSuchTask):
        client.wait(database.engine, uuid4(), 5)
    with database.engine.connect() as connection, pytest.raises(UsageError, match="a URL, an engine"):
        client.wait(connection, uuid4(), 5)  # type: ignore[arg-type]


def test_a_database_that_is_away_for_a_moment_is_waited_for(bench: Bench, database: Database) -> None:
    task_id = bench.submit(answering)
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(client.wait(database.url, task_id, 30)["state"]))
    thread.start()
    sessions = (
        "select pid from pg_stat_activity where application_name = 'tenure wait' and datname = current_database()"
    )
    until(lambda: bench.rows(sessions))
    database.accept_connections(False)
    until(lambda: not bench.rows(f"select pg_terminate_backend(pid) from ({sessions}) x"))
    database.accept_connections(True)
    bench.run(task_id)
    thread.join(30)
    assert answers == ["succeeded"]


def test_a_database_that_stays_away_is_one_clear_error(
    bench: Bench, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = bench.submit(answering)
    monkeypatch.setattr(waiting, "PATIENCE", 0.05)
    database.accept_connections(False)
    with pytest.raises(DatabaseUnavailable, match="stayed away"):
        client.wait(database.url, task_id, 30)
    database.accept_connections(True)


def test_looks_come_at_once_then_ever_later_and_once_more_at_the_end() -> None:
    began, at = time.monotonic(), list[float]()
    for _ in waiting.naps(0.3, longest=0.1):
        at.append(time.monotonic() - began)
    assert at[0] < 0.05
    assert 0.3 <= at[-1] < 2
    assert 4 <= len(at) <= 12


# -- what a body may raise ---------------------------------------------------------------------------------------------


def test_only_errors_of_the_policys_classes_are_tried_again_and_each_attempt_keeps_its_own(bench: Bench) -> None:
    task_id = bench.submit(flaky)
    bench.run(task_id)
    assert bench.state(task_id) == "scheduled"
    due(bench, task_id)
    bench.run(task_id)
    task = bench.get(task_id)
    assert (task["state"], task["outcome"], task["attempt"]) == ("failed", "error", 2), "a third was left"
    assert [(one["how"], one["error_code"]) for one in task["attempts"]] == [
        ("retried", "ConnectionError"), ("failed", "KeyError"),
    ]  # fmt: skip


def test_a_retry_asked_for_by_the_body_comes_when_it_said(bench: Bench) -> None:
    task_id = bench.submit(later)
    bench.run(task_id)
    wait = bench.one(
        "select extract(epoch from available_at - clock_timestamp()) from tasks where id = :id", id=task_id
    )
    assert 3500 < wait <= 3600
    assert bench.get(task_id)["attempts"][0]["error_message"] == "the other side is busy"
    due(bench, task_id)
    bench.run(task_id)
    assert bench.state(task_id) == "succeeded"


def due(bench: Bench, task_id: UUID) -> None:
    bench.rows("update tasks set state = 'queued', available_at = clock_timestamp() where id = :id", id=task_id)
