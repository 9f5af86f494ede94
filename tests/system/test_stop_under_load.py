"""SIGTERM with two cooperative tasks running and sixty queued: settled at once, nothing claimed after it, nothing left."""

import signal
import statistics
from datetime import timedelta

import pytest

from tests.support import stopping
from tests.support.databases import Database
from tests.support.kinds.ledger import handed_on, ledger
from tests.support.submitted import Tasks, scaled
from tests.support.workers import Worker

RUNS = scaled(3, 50)
QUEUED = 60
MEDIAN_S, LARGEST_S = 0.1, 0.5
COOPERATIVE_EXIT_S = 5.0
ELSEWHERE_S = 1.0
MESSAGE = "the worker was shut down; submit the task again"
_LATE = "select count(*) from task_events where verb = 'claim' and created_at > :at"


@pytest.mark.timeout(scaled(180, 3600))
def test_sigterm_under_load_settles_the_running_and_claims_no_more(
    module_database: Database, module_broker: str, tasks: Tasks
) -> None:
    late: list[float] = []
    exits: list[float] = []
    waiting: set[object] = set()
    for _ in range(RUNS):
        waiting.update(tasks.submit(ledger, QUEUED + 2 - len(waiting), steps=10_000, seconds=0.02))
        with Worker(module_database.url, module_broker) as worker:
            worker.wait_ready()
            stopping.in_body(tasks, list(waiting), 2)
            signalled_at = stopping.now(tasks)
            code, seconds = worker.stop()
            assert code == 0, worker.text()[-2000:]
            stopping.assert_nothing_left(tasks, worker)
        exits.append(seconds)
        assert tasks.one(_LATE, at=signalled_at) == 0
        ended = tasks.rows(
            "select id, finished_at, outcome, error_message from tasks where id = any(:ids) and state = 'failed'",
            ids=list(waiting),
        )
        assert [(row.outcome, row.error_message) for row in ended] == [("service_unavailable", MESSAGE)] * 2
        assert tasks.states(list(waiting)) == {"failed service_unavailable": 2, "queued": QUEUED}
        late += [(row.finished_at - signalled_at).total_seconds() for row in ended]
        waiting.difference_update(row.id for row in ended)
    stopping.drop_queued(tasks, list(waiting))
    stopping.figure("SIGTERM to failed row, 2 running and 60 queued", late)
    stopping.figure("SIGTERM to exit, 2 running and 60 queued", exits)
    assert statistics.median(late) <= MEDIAN_S
    assert max(late) <= LARGEST_S
    assert max(exits) <= COOPERATIVE_EXIT_S


def test_what_is_released_runs_elsewhere_within_a_second_of_the_exit_and_is_not_counted(
    module_database: Database, module_broker: str, tasks: Tasks
) -> None:
    with Worker(module_database.url, module_broker, name="leaving") as leaving:
        leaving.wait_ready()
        ids = tasks.submit(handed_on, 2, steps=10_000, seconds=0.02)
        stopping.in_body(tasks, ids)
        with Worker(module_database.url, module_broker, name="staying") as staying:
            staying.wait_ready()
            leaving.signal(signal.SIGTERM)
            assert leaving.exit_code() == 0
            left_at = stopping.now(tasks)
            stopping.in_body(tasks, ids)
            staying.kill()
    for task_id in ids:
        assert [verb for verb, _ in tasks.history(task_id)] == ["submit", "claim", "release", "claim"]
        again = tasks.one("select max(created_at) from task_events where task_id = :id and verb = 'claim'", id=task_id)
        assert again - left_at < timedelta(seconds=ELSEWHERE_S)
        print(f"\nFIGURE released, claimed elsewhere {(again - left_at).total_seconds():+.2f} s from the exit")
        assert tasks.one("select attempt from tasks where id = :id", id=task_id) == 1
