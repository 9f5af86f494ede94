"""pytest-celery's fixtures over local processes instead of containers: one broker, one prefork worker, no result backend."""

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from pytest_celery import CeleryTestWorker, RedisTestBroker

from tests.support.celery_nodes import BrokerProcess, WorkerProcess
from tests.support.databases import Database


@pytest.fixture
def celery_broker() -> Iterator[RedisTestBroker]:
    broker = RedisTestBroker(BrokerProcess())
    yield broker
    broker.teardown()


@pytest.fixture
def celery_backend_cluster() -> None:
    """None: the rows in PostgreSQL are the results."""


@pytest.fixture
def celery_worker_cluster_config(celery_broker_cluster_config: dict[str, Any]) -> dict[str, Any]:
    return {"celery_broker_cluster_config": celery_broker_cluster_config, "celery_backend_cluster_config": None}


@pytest.fixture
def celery_worker(
    celery_worker_cluster_config: dict[str, Any], celery_setup_app: Celery, module_database: Database
) -> Iterator[CeleryTestWorker]:
    (broker_url,) = celery_worker_cluster_config["celery_broker_cluster_config"]["urls"]
    worker = CeleryTestWorker(WorkerProcess("prefork", module_database.url, broker_url), celery_setup_app)
    worker.ready()
    yield worker
    worker.teardown()
