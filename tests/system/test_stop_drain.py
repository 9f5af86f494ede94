"""Kinds with on_shutdown="finish": they may finish within their drain; the ladder counts from its end."""

import pytest

from tests.support import stopping
from tests.support.databases import Database
from tests.support.kinds.stubborn import brief, finishing
from tests.support.submitted import FULL, Tasks
from tests.support.workers import Worker

DRAIN_S, CHILD_S, SLACK_S = 2.0, 5.0, 6.0


def test_what_finishes_within_its_drain_succeeds_and_what_does_not_fails_at_its_end(
    module_database: Database, module_broker: str, tasks: Tasks
) -> None:
    with Worker(module_database.url, module_broker) as worker:
        worker.wait_ready()
        long, short = tasks.submit(brief, mode="cooperative", seconds=60)[0], tasks.submit(finishing, seconds=4)[0]
        stopping.in_body(tasks, [long, short])
        signalled_at = stopping.now(tasks)
        code, seconds = worker.stop()
        stopping.assert_nothing_left(tasks, worker)
    assert code == 0
    assert tasks.states([short]) == {"succeeded": 1}
    assert tasks.states([long]) == {"failed service_unavailable": 1}
    end = stopping.last_end(tasks, long)
    assert DRAIN_S <= (end.finished_at - signalled_at).total_seconds() < DRAIN_S + 0.5
    assert not end.forced
    assert seconds < 4 + SLACK_S


@pytest.mark.parametrize("kind, drain", [(brief, DRAIN_S)] + ([(finishing, 10.0)] if FULL else []))
def test_a_deaf_body_is_ended_so_long_after_its_drain(
    module_database: Database, module_broker: str, tasks: Tasks, kind: object, drain: float
) -> None:
    with Worker(module_database.url, module_broker) as worker:
        worker.wait_ready()
        (task_id,) = tasks.submit(kind, mode="deaf", seconds=60)  # type: ignore[arg-type]
        stopping.in_body(tasks, [task_id])
        signalled_at = stopping.now(tasks)
        code, seconds = worker.stop()
        stopping.assert_nothing_left(tasks, worker)
    assert code == 0
    end = stopping.last_end(tasks, task_id)
    assert tasks.states([task_id]) == {"failed service_unavailable": 1}
    assert end.forced
    assert drain + CHILD_S <= (end.finished_at - signalled_at).total_seconds() < drain + CHILD_S + 2
    assert seconds < min(drain + CHILD_S + SLACK_S, stopping.EXIT_S)
