"""A deadline that passes under a running body: the outcome within two seconds, whatever the body is in."""

import os
import select
import threading
import time

import pytest

from tests.support import stopping
from tests.support.databases import Database
from tests.support.kinds.ledger import ledger
from tests.support.kinds.stubborn import Mode, stubborn
from tests.support.submitted import FULL, Tasks, scaled
from tests.support.until import until
from tests.support.workers import Worker

LATE_S = 2.0
REPEATS = scaled(1, 20)
FORCED: dict[Mode, bool] = {"cooperative": False, "sql": False, "busy": True, "c_held": True}


class Death:
    """When a process ends, by the machine's clock, which is the database's as well: its server runs here."""

    def __init__(self, pid: int) -> None:
        self.at: float | None = None
        self._descriptor = os.pidfd_open(pid)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        select.select([self._descriptor], [], [])
        self.at = time.time()
        os.close(self._descriptor)


@pytest.mark.timeout(scaled(180, 1800))
def test_on_prefork_every_body_is_ended_in_time_and_its_neighbour_is_not_disturbed(
    database: Database, broker_url: str
) -> None:
    late: dict[str, list[float]] = {mode: [] for mode in FORCED}
    tasks = Tasks(database.engine)
    with Worker(database.url, broker_url) as worker:
        worker.wait_ready()
        (neighbour,) = tasks.submit(ledger, steps=100_000, seconds=0.02)
        stopping.in_body(tasks, [neighbour])
        lease = tasks.rows("select pid, token, attempt from task_leases where task_id = :id", id=neighbour)
        for _ in range(REPEATS):
            for mode in FORCED:
                late[mode].append(_one(tasks, worker, mode))
        assert tasks.rows("select pid, token, attempt from task_leases where task_id = :id", id=neighbour) == lease
        assert tasks.states([neighbour]) == {"running": 1}
        assert worker.stop()[0] == 0
        stopping.assert_nothing_left(tasks, worker)
    for mode, seconds in late.items():
        stopping.figure(f"prefork, deadline to failed row, {mode}", seconds)
        assert max(seconds) <= LATE_S, mode


def _one(tasks: Tasks, worker: Worker, mode: Mode) -> float:
    """Seconds from the deadline to the recorded end."""
    task_id = stopping.submit_late(tasks, stubborn, scaled(2, 4), mode=mode)
    stopping.in_body(tasks, [task_id])
    death = Death(stopping.pid_of(tasks, task_id))
    tasks.wait_ended([task_id], 20, watch=[worker])
    assert tasks.states([task_id]) == {"failed deadline_exceeded": 1}
    end = stopping.last_end(tasks, task_id)
    assert end.forced is FORCED[mode], f"{mode}: {worker.text()[-3000:]}"
    if FORCED[mode]:
        died_at = until(lambda: death.at)
        # We may be woken a moment after the process is gone.
        assert died_at is not None
        assert died_at <= end.finished_at.timestamp() + 0.05, "the end was written before the process was gone"
        # The line follows the commit.
        said = until(lambda: [line for line in worker.lines("forced") if line["task_id"] == str(task_id)])
        assert said[0]["kind"] == "stubborn"
    return float((end.finished_at - end.deadline).total_seconds())


@pytest.mark.parametrize("pool", ["threads", "solo"] if FULL else ["threads"])
def test_where_nothing_can_end_a_body_its_end_is_forced_its_writes_refused_and_its_slot_kept(
    database: Database, broker_url: str, pool: str
) -> None:
    concurrency = 2 if pool == "threads" else 1
    tasks = Tasks(database.engine)
    with Worker(database.url, broker_url, pool=pool, concurrency=concurrency) as worker:
        worker.wait_ready()
        busy = tasks.submit(ledger, concurrency - 1, steps=100_000, seconds=0.02)
        stopping.in_body(tasks, busy)
        task_id = stopping.submit_late(tasks, stubborn, 2.0, mode="deaf", seconds=7)
        stopping.in_body(tasks, [task_id])
        pids = [pid for (pid,) in tasks.rows("select pid from task_leases")]
        assert len(set(pids)) == len(pids) == concurrency, "each thread holds under a name of its own"
        after = tasks.submit(ledger, steps=1)
        tasks.wait_ended([task_id], 20, watch=[worker])
        assert tasks.states([task_id]) == {"failed deadline_exceeded": 1}
        end = stopping.last_end(tasks, task_id)
        assert end.forced
        late = (end.finished_at - end.deadline).total_seconds()
        print(f"\nFIGURE {pool}, deadline to failed row, deaf: {1000 * late:.0f} ms")
        assert late <= LATE_S
        (said,) = worker.lines("did_not_stop")
        assert (said["task_id"], said["cause"]) == (str(task_id), "deadline")
        assert tasks.states(after) == {"queued": 1}, "its slot is not free"
        assert tasks.states(busy) == ({"running": len(busy)} if busy else {})
        tasks.wait_ended(after, 20, watch=[worker])
        assert [step for (step,) in tasks.rows("select step from ledger where task_id = :id", id=task_id)] == [1]
        assert [verb for verb, _ in tasks.history(task_id)] == ["submit", "claim", "fail"]
        assert worker.stop()[0] == 0
        stopping.assert_nothing_left(tasks, worker)
    assert tasks.states(after) == {"succeeded": 1}


@pytest.mark.skipif(not FULL, reason="takes 22 s: only in make chaos")
def test_on_threads_a_shutdown_settles_what_does_not_stop_and_leaves(database: Database, broker_url: str) -> None:
    tasks = Tasks(database.engine)
    with Worker(database.url, broker_url, pool="threads") as worker:
        worker.wait_ready()
        ids = tasks.submit(stubborn, 2, mode="deaf", seconds=60)
        stopping.in_body(tasks, ids)
        code, seconds = worker.stop()
        stopping.assert_nothing_left(tasks, worker)
        assert {line["task_id"] for line in worker.lines("did_not_stop")} == {str(one) for one in ids}
    assert (code, tasks.states(ids)) == (0, {"failed service_unavailable": 2})
    assert seconds < stopping.EXIT_S
    print(f"\nFIGURE threads, SIGTERM to exit with two deaf bodies: {seconds:.1f} s")
