"""A worker, or one of its children, is killed or frozen with tasks in hand: others resume them, and nothing is done twice."""

import os
import signal
from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

import pytest

from tests.support.databases import Database
from tests.support.kinds.ledger import ledger
from tests.support.submitted import Tasks
from tests.support.until import until
from tests.support.workers import Worker

LEASE_S, SWEEP_S = 3.0, 1.0
SLACK_S = 2.0  # of a busy machine
SHORT_LEASE = {"TENURE_LEASE_SECONDS": str(LEASE_S), "TENURE_RENEW_SECONDS": "1", "TENURE_REAP_SECONDS": str(SWEEP_S)}
STEPS = 30

_HELD = """select l.task_id, l.token, l.pid from task_leases l join workers w on w.boot_id = l.worker
    where w.node like :node and exists (select 1 from ledger x where x.task_id = l.task_id and x.token = l.token)
    order by l.token"""


@pytest.fixture(scope="module")
def survivor(module_database: Database, module_broker: str, tasks: Tasks) -> Iterator[Worker]:
    with Worker(module_database.url, module_broker, name="survivor", env=SHORT_LEASE) as worker:
        yield worker.wait_ready()


@pytest.fixture(scope="module")
def victim(module_database: Database, module_broker: str, survivor: Worker) -> Iterator[Worker]:
    """Frozen first, killed last: a start costs more than the rest of a test."""
    with Worker(module_database.url, module_broker, name="victim", env=SHORT_LEASE) as worker:
        yield worker.wait_ready()


def held_in_mid_task(tasks: Tasks, node: str, count: int) -> dict[UUID, int]:
    """{task: token} of what the worker holds, once it holds that many and each has left an effect."""
    until(lambda: len(tasks.rows(_HELD, node=f"{node}@%")) >= count)
    return {row[0]: row[1] for row in tasks.rows(_HELD, node=f"{node}@%")}


def claimed_again(tasks: Tasks, task_id: UUID, token: int) -> datetime | None:
    rows = tasks.rows(
        "select created_at from task_events where task_id = :id and verb = 'claim' and token > :token",
        id=task_id,
        token=token,
    )
    return rows[0][0] if rows else None


def test_what_a_killed_child_held_is_settled_at_once_and_resumed(tasks: Tasks, survivor: Worker) -> None:
    ids = tasks.submit(ledger, 2, steps=STEPS, seconds=0.05)
    held = held_in_mid_task(tasks, "survivor", 2)
    task_id, token = next(iter(held.items()))
    pid = next(row[2] for row in tasks.rows(_HELD, node="survivor@%") if row[0] == task_id)
    killed_at = tasks.one("select clock_timestamp()")
    os.kill(pid, signal.SIGKILL)
    tasks.wait_ended(ids, 30, watch=[survivor])
    tasks.assert_exactly_once(ids, STEPS)
    settled = tasks.one("select created_at from task_events where task_id = :id and verb = 'recover'", id=task_id)
    assert (settled - killed_at).total_seconds() < 2.0
    assert claimed_again(tasks, task_id, token) is not None
    neighbour = next(one for one in ids if one != task_id)
    assert [verb for verb, _ in tasks.history(neighbour)] == ["submit", "claim", "succeed"]


def test_a_worker_frozen_past_its_lease_writes_nothing_when_it_wakes(
    tasks: Tasks, survivor: Worker, victim: Worker
) -> None:
    ids = tasks.submit(ledger, 4, steps=STEPS, seconds=0.05)
    held = held_in_mid_task(tasks, "victim", 2)
    victim.freeze()
    until(lambda: all(claimed_again(tasks, task_id, token) for task_id, token in held.items()), LEASE_S + 10)
    victim.thaw()
    tasks.wait_ended(ids, 30, watch=[survivor, victim])
    until(lambda: len(victim.lines("lease_lost")) >= len(held))
    tasks.assert_exactly_once(ids, STEPS)
    again = tasks.submit(ledger, 8, steps=1)
    tasks.wait_ended(again, 30, watch=[survivor, victim])
    assert victim.process.poll() is None


def test_what_a_killed_worker_held_is_resumed_within_lease_and_sweep(
    tasks: Tasks, survivor: Worker, victim: Worker
) -> None:
    ids = tasks.submit(ledger, 4, steps=STEPS, seconds=0.05)
    held = held_in_mid_task(tasks, "victim", 2)
    killed_at = tasks.one("select clock_timestamp()")
    victim.kill()
    tasks.wait_ended(ids, 30, watch=[survivor])
    tasks.assert_exactly_once(ids, STEPS)
    for task_id, token in held.items():
        again = claimed_again(tasks, task_id, token)
        assert again is not None
        assert (again - killed_at).total_seconds() < LEASE_S + SWEEP_S + SLACK_S
        assert [verb for verb, _ in tasks.history(task_id)] == ["submit", "claim", "recover", "claim", "succeed"]
