"""Celery's event stream, Flower's only source, has the whole life of every task, also of those no message was sent for."""

from collections.abc import Iterator

import pytest

from tenure_workers.kinds.probe import probe
from tests.support.celery_events import CeleryEvents
from tests.support.databases import Database
from tests.support.kinds.ledger import ledger, tiny
from tests.support.submitted import Tasks, scaled
from tests.support.until import until
from tests.support.workers import Worker

COUNT = scaled(500, 10_000)
SUCCEEDED = ["task-received", "task-started", "task-succeeded"]
FAILED = ["task-received", "task-started", "task-failed"]


@pytest.fixture(scope="module")
def worker(module_database: Database, module_broker: str, tasks: Tasks) -> Iterator[Worker]:
    with Worker(module_database.url, module_broker) as worker:
        yield worker.wait_ready()


def test_every_task_is_received_started_and_succeeded_though_one_message_runs_many(
    tasks: Tasks, worker: Worker, module_broker: str
) -> None:
    with CeleryEvents(module_broker) as events:
        ids = tasks.submit(probe, COUNT, steps=0) + tasks.submit(tiny, COUNT // 5, steps=0)
        tasks.wait_ended(ids, 30 + COUNT / 50, watch=[worker])
        wanted = dict.fromkeys(map(str, ids), SUCCEEDED)
        until(lambda: len(events.by_task()) == len(wanted) and events.by_task() == wanted, 10, pace=0.2)
    assert {event["name"] for event in events.all() if event["type"] == "task-received"} == {"probe", "ledger.tiny"}


def test_the_events_of_tasks_ended_by_a_shutdown_are_sent_before_the_worker_is_gone(
    tasks: Tasks, worker: Worker, module_broker: str
) -> None:
    with CeleryEvents(module_broker) as events:
        ids = tasks.submit(ledger, 2, steps=1000, seconds=0.02)
        until(lambda: tasks.one("select count(distinct task_id) from ledger where task_id = any(:ids)", ids=ids) == 2)
        assert worker.stop()[0] == 0
        assert tasks.states(ids) == {"failed service_unavailable": 2}
        until(lambda: events.by_task() == dict.fromkeys(map(str, ids), FAILED), 10)
        until(lambda: any(event["type"] == "worker-offline" for event in events.all()), 10)
