"""The worker under pytest-celery's own verbs: ready, ping, kill, restart, and a broker that is restarted in mid-run."""

from typing import Any

from pytest_celery import CeleryTestSetup

from tests.support.kinds.ledger import handed_on, ledger
from tests.support.submitted import Tasks
from tests.support.until import until


def pings(setup: CeleryTestSetup) -> list[dict[str, Any]]:
    """Who answers Celery's remote control."""
    return list(setup.app.control.ping(timeout=2.0, limit=1))


def test_a_prefork_worker_is_ready_runs_tasks_and_takes_up_after_a_restart_what_it_handed_on(
    celery_setup: CeleryTestSetup, tasks: Tasks
) -> None:
    assert celery_setup.ready(control=True, docker=True)
    assert pings(celery_setup) == [{celery_setup.worker.hostname(): {"ok": "pong"}}]
    ids = tasks.submit(handed_on, 2, steps=40, seconds=0.02)
    until(lambda: tasks.one("select count(distinct task_id) from ledger") == 2)
    celery_setup.worker.kill("SIGTERM")
    assert celery_setup.worker.container.exit_code == 0
    celery_setup.worker.assert_log_exists('"event": "stopped"')
    assert tasks.states(ids) == {"queued": 2}
    celery_setup.worker.restart()
    tasks.wait_ended(ids, 30)
    tasks.assert_exactly_once(ids, 40)


def test_a_restart_of_the_broker_in_mid_run_loses_and_doubles_nothing(
    celery_setup: CeleryTestSetup, tasks: Tasks
) -> None:
    before = tasks.ended()
    ids = tasks.submit(ledger, 100, steps=1, seconds=0.02)
    until(lambda: tasks.ended() > before + 10)
    celery_setup.broker.restart()
    tasks.wait_ended(ids, 30)
    tasks.assert_exactly_once(ids, 1)
    until(lambda: pings(celery_setup), 20)
