"""The main process stands still, is killed and started again, or is merely slow: who holds a task is never in doubt."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tenure import client
from tests.support.databases import Database
from tests.support.kinds.ledger import ledger
from tests.support.percentiles import figures
from tests.support.stubborn import KINDS
from tests.support.stubborn.poison import poison
from tests.support.submitted import TESTER, Tasks, scaled
from tests.support.until import until
from tests.support.workers import Worker

LEASE_S = 3.0
SHORT_LEASE = {"TENURE_LEASE_SECONDS": str(LEASE_S), "TENURE_RENEW_SECONDS": "1", "TENURE_KINDS": KINDS}
LONG_LEASE = {"TENURE_LEASE_SECONDS": "120", "TENURE_RENEW_SECONDS": "5"}
GOOD = scaled(50, 1000)
LEASES_LONG = scaled(3, 20)
CRASH_BOUND = 3

_HELD = """select l.task_id, l.token, l.pid from task_leases l join workers w on w.boot_id = l.worker
    where w.node like :node and exists (select 1 from ledger x where x.task_id = l.task_id and x.token = l.token)"""


def held_in_mid_task(tasks: Tasks, node: str, count: int = 1) -> list[Any]:
    """[(task, token, pid)] of what the node's workers hold, once that many have left an effect."""
    return until(lambda: (rows := tasks.rows(_HELD, node=f"{node}@%")) and len(rows) >= count and rows, 30)


@pytest.fixture(scope="module")
def sibling(module_database: Database, module_broker: str, tasks: Tasks) -> Iterator[Worker]:
    with Worker(module_database.url, module_broker, name="sibling", env=SHORT_LEASE) as worker:
        yield worker.wait_ready()


def test_children_of_a_frozen_main_process_stop_by_themselves_and_write_nothing_more(
    module_database: Database, module_broker: str, tasks: Tasks, sibling: Worker
) -> None:
    with Worker(module_database.url, module_broker, name="sleeper", env=SHORT_LEASE) as sleeper:
        sleeper.wait_ready()
        ids = tasks.submit(ledger, 4, steps=30, seconds=0.1)
        held = held_in_mid_task(tasks, "sleeper", 2)
        sleeper.signal(signal.SIGSTOP)
        frozen_at = time.monotonic()
        until(lambda: len(sleeper.lines("lease_lost")) >= len(held), LEASE_S + 5)
        print(f"children of a frozen main stopped after {time.monotonic() - frozen_at:.1f} s, lease {LEASE_S:g} s")
        assert time.monotonic() - frozen_at < LEASE_S + 2
        # They take no other task meanwhile: nobody would renew its lease.
        assert {row[0] for row in tasks.rows(_HELD, node="sleeper@%")} <= {row[0] for row in held}
        tasks.wait_ended(ids, 40, watch=[sibling])
        sleeper.signal(signal.SIGCONT)
        tasks.assert_exactly_once(ids, 30)
        for task_id, token, _ in held:
            assert [verb for verb, _ in tasks.history(task_id)] == ["submit", "claim", "recover", "claim", "succeed"]
            last = "select max(x.id) from ledger x where x.task_id = :id and x.token = :token"
            first = "select min(x.id) from ledger x where x.task_id = :id and x.token > :token"
            assert tasks.one(last, id=task_id, token=token) < tasks.one(first, id=task_id, token=token)
        again = tasks.submit(ledger, 8, steps=1)
        tasks.wait_ended(again, 30, watch=[sibling, sleeper])
        assert sleeper.process.poll() is None


def test_a_task_that_kills_its_child_ends_at_the_bound_and_the_good_ones_finish(
    module_database: Database, module_broker: str, tasks: Tasks, sibling: Worker
) -> None:
    good = tasks.submit(ledger, GOOD // 2, steps=1)
    (bad,) = tasks.submit(poison)
    good += tasks.submit(ledger, GOOD - GOOD // 2, steps=1)
    tasks.wait_ended([*good, bad], 60 + GOOD / 10, watch=[sibling])
    tasks.assert_exactly_once(good, 1)
    assert tasks.rows("select state, outcome, crashes from tasks where id = :id", id=bad) == [
        ("failed", "worker_lost", CRASH_BOUND)
    ]
    assert [verb for verb, _ in tasks.history(bad)] == ["submit", *["claim", "recover"] * CRASH_BOUND]
    settled = """select extract(epoch from r.created_at - c.created_at)::float8 from
        (select created_at, row_number() over (order by created_at) n from task_events where task_id = :id and verb = 'claim') c
        join (select created_at, row_number() over (order by created_at) n from task_events
              where task_id = :id and verb = 'recover') r using (n)"""
    taken = [row[0] for row in tasks.rows(settled, id=bad)]
    print(figures("poison settled", taken))
    assert max(taken) < 2.0


def test_a_restart_under_the_same_name_settles_the_old_boot_and_nobody_elses(
    module_database: Database, module_broker: str, tasks: Tasks, sibling: Worker
) -> None:
    with ExitStack() as started:

        def start() -> Worker:
            worker = Worker(module_database.url, module_broker, name="again", concurrency=1, env=LONG_LEASE)
            return started.enter_context(worker)

        first = start().wait_ready()
        ids = tasks.submit(ledger, 3, steps=1_000_000, seconds=0.05)
        kept = {task_id: token for task_id, token, _ in held_in_mid_task(tasks, "sibling", 2)}
        ((lost, lost_token, _),) = held_in_mid_task(tasks, "again")
        first.kill()
        killed = tasks.one("select clock_timestamp()")
        second = start().wait_ready()
        (said,) = second.lines("previous_boot_settled")
        assert said["task_id"] == str(lost)
        ((task_id, token, _),) = held_in_mid_task(tasks, "again")
        assert (task_id, token > lost_token) == (lost, True)
        settled = tasks.one("select created_at from task_events where task_id = :id and verb = 'recover'", id=lost)
        print(f"previous boot settled {(settled - killed).total_seconds():.1f} s after the kill")
        standing = {row[0]: row[1] for row in tasks.rows("select task_id, token from task_leases")}
        assert standing == {**kept, lost: token}
        assert [verb for verb, _ in tasks.history(lost)] == ["submit", "claim", "recover", "claim"]
        for task_id in ids:
            with tasks.engine.begin() as connection:
                client.cancel(connection, task_id, initiator=TESTER)
        tasks.wait_ended(ids, 20, watch=[sibling, second])
    assert {len(tasks.history(task_id)) for task_id in kept} == {4}, "submit, claim, and the cancel"


@contextmanager
def busy(seconds: float) -> Iterator[None]:
    """Two processes that do nothing but burn; they end by themselves."""
    burn = f"import time; end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
    burning = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(2)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def test_a_task_many_leases_long_on_a_loaded_machine_is_never_recovered_while_its_worker_lives(
    tasks: Tasks, sibling: Worker
) -> None:
    seconds = LEASES_LONG * LEASE_S
    with busy(seconds + 10):
        ids = tasks.submit(ledger, 2, steps=int(seconds * 2), seconds=0.5)
        tasks.wait_ended(ids, seconds + 60, watch=[sibling])
    tasks.assert_exactly_once(ids, int(seconds * 2))
    assert tasks.rows("select distinct attempt, crashes from tasks where id = any(:ids)", ids=ids) == [(1, 0)]
    took = "select min(extract(epoch from finished_at - started_at))::float8 from tasks where id = any(:ids)"
    print(f"load average {os.getloadavg()[0]:.1f}, {tasks.one(took, ids=ids):.0f} s on leases of {LEASE_S:g} s")
    assert tasks.one(took, ids=ids) >= seconds
