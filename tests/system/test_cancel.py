"""Cancel: at once for what waits, asked and then acknowledged for what runs, never over a success."""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tenure import client
from tenure.model.errors import TooLate
from tenure.model.states import State
from tenure.runtime.instance import instance
from tests.support.command import Tenure
from tests.support.databases import Database
from tests.support.kinds.ledger import ledger
from tests.support.percentiles import figures, percentile
from tests.support.stubborn import KINDS
from tests.support.stubborn.tidy import TABLE, tidy
from tests.support.submitted import TESTER, Tasks, scaled
from tests.support.until import until
from tests.support.workers import Worker

RUNS = scaled(10, 200)
RACES = scaled(25, 500)
PAGE_S = 0.05
P99_S = 1.5 + PAGE_S
SHORT_LEASE = {"TENURE_LEASE_SECONDS": "3", "TENURE_RENEW_SECONDS": "1", "TENURE_KINDS": KINDS}
FOR_EVER = {"steps": 1_000_000, "seconds": PAGE_S}

_ASKED_TO_ENDED = """select extract(epoch from k.finished_at - e.created_at)::float8
    from tasks k join task_events e on e.task_id = k.id and e.verb = 'request_cancel' where k.id = any(:ids)"""


@pytest.fixture(scope="module")
def early(tasks: Tasks) -> list[UUID]:
    """Submitted and cancelled before any worker was there."""
    ids = tasks.submit(ledger, 3, steps=1)
    for task_id in ids:
        assert cancel(tasks, task_id) is State.CANCELLED
    return ids


@pytest.fixture(scope="module")
def worker(module_database: Database, module_broker: str, early: list[UUID]) -> Iterator[Worker]:
    with Worker(module_database.url, module_broker, env=SHORT_LEASE) as worker:
        yield worker.wait_ready()


@pytest.fixture
def tenure(module_database: Database, module_broker: str, tmp_path: Path) -> Tenure:
    return Tenure(tmp_path, TENURE_DATABASE_URL=module_database.url, TENURE_BROKER_URL=module_broker)


def cancel(tasks: Tasks, task_id: UUID) -> State:
    with tasks.engine.begin() as connection:
        return client.cancel(connection, task_id, initiator=TESTER)


def at_work(tasks: Tasks, ids: list[UUID]) -> None:
    """Until each has left an effect."""
    done = "select count(distinct task_id) from ledger where task_id = any(:ids)"
    until(lambda: tasks.one(done, ids=ids) == len(ids), 30)


def claimed(tasks: Tasks, task_id: UUID) -> None:
    held = "select 1 from task_events where task_id = :id and verb = 'claim'"
    until(lambda: tasks.rows(held, id=task_id), pace=0.001)


def cancelled_in(tasks: Tasks, runs: int, worker: Worker) -> list[float]:
    """Seconds from the request to the end, of that many running tasks, two at a time."""
    taken: list[float] = []
    while len(taken) < runs:
        ids = tasks.submit(ledger, 2, **FOR_EVER)
        at_work(tasks, ids)
        for task_id in ids:
            assert cancel(tasks, task_id) is State.RUNNING
        tasks.wait_ended(ids, 10, watch=[worker])
        assert tasks.states(ids) == {"cancelled": 2}
        taken += [row[0] for row in tasks.rows(_ASKED_TO_ENDED, ids=ids)]
    return taken


def test_what_waits_is_gone_at_once_and_twice_is_harmless(tasks: Tasks, tenure: Tenure) -> None:
    (task_id,) = tasks.submit(ledger, steps=1)
    tenure.line("tasks", "cancel", str(task_id))
    assert tasks.states([task_id]) == {"cancelled": 1}
    assert tasks.one("select count(*) from task_hints where task_id = :id", id=task_id) == 0
    tenure.line("tasks", "cancel", str(task_id))
    assert [verb for verb, _ in tasks.history(task_id)] == ["submit", "request_cancel"]


def test_what_was_cancelled_before_any_worker_came_never_starts(
    tasks: Tasks, early: list[UUID], worker: Worker
) -> None:
    others = tasks.submit(ledger, 4, steps=1)
    tasks.wait_ended(others, 30, watch=[worker])
    assert tasks.states(others) == {"succeeded": 4}
    for task_id in early:
        assert [verb for verb, _ in tasks.history(task_id)] == ["submit", "request_cancel"]


def test_what_runs_is_cancelled_only_after_its_cleanup(tasks: Tasks, worker: Worker, tenure: Tenure) -> None:
    with tasks.engine.begin() as connection:
        connection.exec_driver_sql(TABLE)
    (task_id,) = tasks.submit(tidy, cleanup=1.0)
    until(lambda: tasks.leases() == 1)
    assert tenure.line("tasks", "cancel", str(task_id)) == "running: it was asked to stop"
    shown = tenure.json("tasks", "show", str(task_id))
    assert shown["state"] == "running"
    assert len(shown["stops"]) == 1
    tenure.line("tasks", "cancel", str(task_id))
    tasks.wait_ended([task_id], 10, watch=[worker])
    assert tasks.states([task_id]) == {"cancelled": 1}
    late = "select k.finished_at >= c.ended from tasks k join cleanups c on c.task_id = k.id where k.id = :id"
    assert tasks.rows(late, id=task_id) == [(True,)]
    verbs = [verb for verb, _ in tasks.history(task_id)]
    assert verbs == ["submit", "claim", "request_cancel", "acknowledge_cancel"]


def test_a_body_that_hears_nothing_is_cancelled_only_once_its_process_is_gone(tasks: Tasks, worker: Worker) -> None:
    with tasks.engine.begin() as connection:
        task_id = client.submit(connection, "probe", {"seconds": 60, "mode": "deaf"}, initiator=TESTER).id
    until(lambda: tasks.leases() == 1)
    pid = tasks.one("select pid from task_leases")
    cancel(tasks, task_id)
    tasks.wait_ended([task_id], 10, watch=[worker])
    assert tasks.states([task_id]) == {"cancelled": 1}
    assert instance(pid) == "", "its process must be gone"
    assert tasks.rows("select how, forced from task_attempts where task_id = :id", id=task_id) == [("cancelled", True)]
    assert tasks.rows("select path, status from activity_phases where task_id = :id", id=task_id) == [
        ("steps", "failed")
    ]


def test_a_running_task_is_cancelled_in_time(tasks: Tasks, worker: Worker) -> None:
    taken = cancelled_in(tasks, RUNS, worker)
    print(figures("cancel", taken))
    assert percentile(taken, 0.99) <= P99_S, figures("cancel", taken)


def test_a_running_task_is_cancelled_in_time_with_every_listener_killed_each_second(
    tasks: Tasks, worker: Worker
) -> None:
    stop = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        while not killed or not stop.wait(1.0):
            killed.append(len(tasks.rows("select pg_terminate_backend(pid) from pg_stat_activity "
                          "where datname = current_database() and application_name = 'tenure listener'")))  # fmt: skip

    killer = threading.Thread(target=kill, name="killer")
    killer.start()
    try:
        taken = cancelled_in(tasks, RUNS, worker)
    finally:
        stop.set()
        killer.join()
    print(figures("cancel without listeners", taken), f"listeners killed: {sum(killed)}")
    assert sum(killed) > 0
    assert percentile(taken, 0.99) <= P99_S, figures("cancel without listeners", taken)


def test_a_cancel_that_races_the_last_commit_is_success_or_cancelled_never_both(tasks: Tasks, worker: Worker) -> None:
    ids: list[UUID] = []
    refused: set[UUID] = set()
    for _ in range(RACES):
        (task_id,) = tasks.submit(ledger, steps=1, seconds=0.02)
        ids.append(task_id)
        claimed(tasks, task_id)
        time.sleep(random.uniform(0.005, 0.04))
        try:
            cancel(tasks, task_id)
        except TooLate:
            refused.add(task_id)
    tasks.wait_ended(ids, 30, watch=[worker])
    states = tasks.states(ids)
    print(f"raced: {dict(states)}, refused as too late: {len(refused)}")
    assert set(states) <= {"succeeded", "cancelled"}
    ended = """select k.id, k.state, (select count(*) from task_events e where e.task_id = k.id and e.verb in
        ('succeed', 'acknowledge_cancel', 'recover', 'fail')), (select count(*) from task_attempts a where a.task_id = k.id),
        exists (select 1 from task_results r where r.task_id = k.id) from tasks k where k.id = any(:ids)"""
    for task_id, state, ends, attempts, result in tasks.rows(ended, ids=ids):
        assert (ends, attempts, result) == (1, 1, state == "succeeded"), (task_id, state)
        assert state == "succeeded" or task_id not in refused
    # The requests that came too late are forgotten: nobody is left to answer them.
    until(lambda: tasks.one("select count(*) from task_stops") == 0)
    assert tasks.states(ids) == states


def test_a_cancel_of_a_task_that_has_ended_is_refused(tasks: Tasks, worker: Worker, tenure: Tenure) -> None:
    (task_id,) = tasks.submit(ledger, steps=1)
    tasks.wait_ended([task_id], 10, watch=[worker])
    assert "already ended" in tenure.refusal(1, "tasks", "cancel", str(task_id))
    assert tasks.states([task_id]) == {"succeeded": 1}


def test_a_cancel_whose_worker_is_killed_is_acknowledged_by_recovery(
    module_database: Database, module_broker: str, tasks: Tasks, worker: Worker
) -> None:
    with Worker(module_database.url, module_broker, name="victim", env=SHORT_LEASE) as victim:
        victim.wait_ready()
        ids = tasks.submit(ledger, 4, **FOR_EVER)
        at_work(tasks, ids)
        # Frozen first: it must not hear of the request before it is killed.
        victim.freeze()
        for task_id in ids:
            cancel(tasks, task_id)
        victim.kill()
        tasks.wait_ended(ids, 30, watch=[worker])
    assert tasks.states(ids) == {"cancelled": 4}
    verbs = sorted(tasks.history(task_id)[-1][0] for task_id in ids)
    assert verbs == ["acknowledge_cancel"] * 2 + ["recover"] * 2
    assert tasks.leases() == 0
