"""Celery's remote control: what would disable a worker is answered, and the worker works on."""

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from tests.support.databases import Database
from tests.support.kinds.ledger import ledger
from tests.support.submitted import Tasks
from tests.support.workers import Worker

COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("rate_limit", {"task_name": "ledger", "rate_limit": "1/h"}),
    ("time_limit", {"task_name": "ledger", "hard": 0.1, "soft": 0.1}),
    ("pool_grow", {"n": 2}),
    ("pool_shrink", {"n": 1}),
    ("pool_restart", {}),
    ("autoscale", {"max": 1, "min": 0}),
]


@pytest.fixture(scope="module")
def worker(module_database: Database, module_broker: str) -> Iterator[Worker]:
    with Worker(module_database.url, module_broker, concurrency=2) as made:
        made.wait_ready()
        yield made


@pytest.mark.parametrize(("command", "arguments"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_a_command_that_would_disable_a_worker_is_not_supported(
    worker: Worker, tasks: Tasks, module_broker: str, command: str, arguments: dict[str, Any]
) -> None:
    pool = worker.pool()
    with Celery("elsewhere", broker=module_broker, set_as_current=False) as app:
        answers = app.control.broadcast(command, arguments=arguments, reply=True, timeout=5.0, limit=1)
    (answer,) = [one["one@test"] for one in answers]
    assert answer["error"].startswith(f"not supported: {command}: ")
    assert worker.pool() == pool
    ids = [*tasks.submit(ledger, steps=2, seconds=0.2), *tasks.submit(ledger, steps=1)]
    tasks.wait_ended(ids, 20, watch=[worker])
    assert tasks.states(ids) == {"succeeded": 2}
