"""SIGTERM and its like: work is settled at once, nothing more is claimed, the exit code says it was asked for."""

import signal

from tests.support.databases import Database
from tests.support.kinds.ledger import handed_on, ledger
from tests.support.promptness import best_of
from tests.support.submitted import Tasks
from tests.support.until import until
from tests.support.workers import Worker

IDLE_S, COOPERATIVE_S, SETTLED_S = 4.0, 6.0, 0.5

_SESSIONS = """select application_name from pg_stat_activity
    where datname = current_database() and application_name like 'tenure%'"""


def running(tasks: Tasks, count: int) -> None:
    until(
        lambda: tasks.one("select count(distinct l.task_id) from task_leases l join ledger x using (task_id)") >= count
    )


def test_an_idle_worker_leaves_on_sigint_in_good_order_with_exit_code_1(
    module_database: Database, module_broker: str, tasks: Tasks
) -> None:
    with Worker(module_database.url, module_broker) as worker:
        worker.wait_ready().signal(signal.SIGINT)
        assert worker.exit_code() == 1
        assert_left_nothing(worker, tasks)


def test_an_idle_worker_is_gone_soon_after_sigterm(module_database: Database, module_broker: str, tasks: Tasks) -> None:
    def stopped() -> float:
        with Worker(module_database.url, module_broker) as worker:
            code, seconds = worker.wait_ready().stop()
            assert code == 0
            assert_left_nothing(worker, tasks)
        return seconds

    assert best_of(stopped, IDLE_S) < IDLE_S


def assert_left_nothing(worker: Worker, tasks: Tasks) -> None:
    (last,) = worker.lines("stopped")
    assert (last["late"], last["died"]) == ([], [])
    assert tasks.rows(_SESSIONS) == []
    assert tasks.one("select count(*) from workers where ended_at is null") == 0


def test_cooperative_tasks_are_failed_as_service_unavailable_and_queued_ones_stay(
    module_database: Database, module_broker: str, tasks: Tasks
) -> None:
    ids = tasks.submit(ledger, 6, steps=1000, seconds=0.02)
    with Worker(module_database.url, module_broker) as worker:
        worker.wait_ready()
        running(tasks, 2)
        signalled_at = tasks.one("select clock_timestamp()")
        code, seconds = worker.stop()
    assert code == 0
    assert seconds < COOPERATIVE_S
    assert tasks.states(ids) == {"failed service_unavailable": 2, "queued": 4}
    ended = tasks.rows("select finished_at from tasks where id = any(:ids) and state = 'failed'", ids=ids)
    assert max((row[0] - signalled_at).total_seconds() for row in ended) < SETTLED_S
    late = "select count(*) from task_events where verb = 'claim' and created_at > :at"
    assert tasks.one(late, at=signalled_at) == 0
    assert tasks.leases() == 0
    assert tasks.rows(_SESSIONS) == []
    tasks.rows("update tasks set state = 'cancelled', finished_at = clock_timestamp() where id = any(:ids) "
               "and state = 'queued' returning id", ids=ids)  # fmt: skip


def test_a_kind_that_is_handed_on_is_resumed_by_another_worker_which_leaves_on_sigquit_in_good_order(
    module_database: Database, module_broker: str, tasks: Tasks
) -> None:
    steps = 60
    with Worker(module_database.url, module_broker, name="first") as first:
        first.wait_ready()
        ids = tasks.submit(handed_on, 2, steps=steps, seconds=0.05)
        running(tasks, 2)
        assert first.stop()[0] == 0
    assert tasks.states(ids) == {"queued": 2}
    assert tasks.leases() == 0
    with Worker(module_database.url, module_broker, name="second") as second:
        second.wait_ready()
        tasks.wait_ended(ids, 30, watch=[second])
        second.signal(signal.SIGQUIT)
        assert second.exit_code() == 0
        assert_left_nothing(second, tasks)
    tasks.assert_exactly_once(ids, steps)
    for task_id in ids:
        assert [verb for verb, _ in tasks.history(task_id)] == ["submit", "claim", "release", "claim", "succeed"]
    assert tasks.rows("select distinct attempt from tasks where id = any(:ids)", ids=ids) == [(1,)]
