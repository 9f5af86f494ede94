"""Kinds with on_shutdown="finish": they may finish within their drain; the ladder counts from its end."""

import pytest

from tests.support import stopping
from tests.support.databases import Database
from tests.support.kinds.stubborn import brief, finishing
from tests.support.submitted import FULL, Tasks
from tests.support.workers import Worker

DRAIN_S, LONG_DRAIN_S, CHILD_S = 2.0, 10.0, 5.0
FINISHES_S = 4.0
SLACK_S = 6.0  # Celery's own seconds, and a busy machine


def test_what_finishes_within_its_drain_succeeds_what_does_not_fails_and_the_deaf_is_ended(
    module_database: Database, module_broker: str, tasks: Tasks
) -> None:
    with Worker(module_database.url, module_broker, concurrency=3) as worker:
        worker.wait_ready()
        (long,), (deaf,) = tasks.submit(brief, mode="cooperative", seconds=60), tasks.submit(brief, mode="deaf")
        (short,) = tasks.submit(finishing, seconds=FINISHES_S)
        stopping.in_body(tasks, [long, short, deaf])
        signalled_at = stopping.now(tasks)
        code, seconds = worker.stop()
        stopping.assert_nothing_left(tasks, worker)
    assert code == 0
    assert tasks.states([short]) == {"succeeded": 1}
    assert tasks.states([long, deaf]) == {"failed service_unavailable": 2}
    end = stopping.last_end(tasks, long)
    assert DRAIN_S <= (end.finished_at - signalled_at).total_seconds() < DRAIN_S + 0.5
    assert not end.forced
    end = stopping.last_end(tasks, deaf)
    assert DRAIN_S + CHILD_S <= (end.finished_at - signalled_at).total_seconds() < DRAIN_S + CHILD_S + 2
    assert end.forced
    assert seconds < DRAIN_S + CHILD_S + SLACK_S
    print(f"\nFIGURE drain of {DRAIN_S:g} s and a deaf body: exit {seconds:.1f} s")


@pytest.mark.skipif(not FULL, reason="takes 17 s: only in make chaos")
def test_with_the_usual_drain_a_deaf_body_is_ended_in_time(
    module_database: Database, module_broker: str, tasks: Tasks
) -> None:
    with Worker(module_database.url, module_broker) as worker:
        worker.wait_ready()
        (task_id,) = tasks.submit(finishing, mode="deaf", seconds=60)
        stopping.in_body(tasks, [task_id])
        signalled_at = stopping.now(tasks)
        code, seconds = worker.stop()
        stopping.assert_nothing_left(tasks, worker)
    end = stopping.last_end(tasks, task_id)
    assert (code, end.forced) == (0, True)
    assert tasks.states([task_id]) == {"failed service_unavailable": 1}
    after = (end.finished_at - signalled_at).total_seconds()
    assert LONG_DRAIN_S + CHILD_S <= after < LONG_DRAIN_S + CHILD_S + 2
    assert seconds < stopping.EXIT_S
    print(f"\nFIGURE drain of {LONG_DRAIN_S:g} s and a deaf body: exit {seconds:.1f} s")
