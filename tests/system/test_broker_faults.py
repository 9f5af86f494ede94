"""The broker loses everything, goes away, or stops answering: every task still runs, once, and no process is restarted."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.databases import Database
from tests.support.kinds.ledger import ledger
from tests.support.servers import OwnServers
from tests.support.submitted import Tasks, scaled
from tests.support.until import until
from tests.support.workers import Worker

COUNT = scaled(200, 2000)
STEPS = 2
FROZEN_S = 8.0


@pytest.fixture(scope="module")
def own() -> Iterator[OwnServers]:
    with OwnServers(postgres=False) as own:
        yield own


@pytest.fixture(scope="module")
def worker(own: OwnServers, module_database: Database, tasks: Tasks) -> Iterator[Worker]:
    with Worker(module_database.url, own.broker_url) as worker:
        yield worker.wait_ready()


def flushed(own: OwnServers) -> None:
    own.flush_valkey()


def restarted(own: OwnServers) -> None:
    own.stop_valkey()
    own.start_valkey()


def frozen(own: OwnServers) -> None:
    own.freeze_valkey()
    time.sleep(FROZEN_S)
    own.thaw_valkey()


@pytest.mark.parametrize("fault", [flushed, restarted, frozen])
def test_with_the_broker_lost_in_mid_run_every_task_ends_exactly_once(
    own: OwnServers, worker: Worker, tasks: Tasks, fault: Callable[[OwnServers], None]
) -> None:
    before = tasks.ended()
    ids = tasks.submit(ledger, COUNT, steps=STEPS, seconds=0.01)
    until(lambda: tasks.ended() >= before + COUNT // 10, 60)
    assert tasks.ended() < before + COUNT, "the fault must come in mid-run"
    fault(own)
    tasks.wait_ended(ids, 60 + COUNT / 20, watch=[worker])
    tasks.assert_exactly_once(ids, STEPS)
    assert worker.process.poll() is None


def test_tasks_submitted_while_the_broker_is_down_run_when_it_is_back(
    own: OwnServers, worker: Worker, tasks: Tasks
) -> None:
    own.stop_valkey()
    ids = tasks.submit(ledger, 20, steps=1)
    own.start_valkey()
    tasks.wait_ended(ids, 30, watch=[worker])
    tasks.assert_exactly_once(ids, 1)


def test_a_broker_killed_while_a_long_task_is_in_hand_leaves_the_worker_alive(
    own: OwnServers, worker: Worker, tasks: Tasks
) -> None:
    """The ack comes after the reconnect, by a channel that is no more."""
    ids = tasks.submit(ledger, 2, steps=1, seconds=5.0)
    until(lambda: tasks.leases() == 2, 20)
    own.kill_valkey()
    own.start_valkey()
    tasks.wait_ended(ids, 30, watch=[worker])
    more = tasks.submit(ledger, 20, steps=1)
    tasks.wait_ended(more, 40, watch=[worker])
    tasks.assert_exactly_once([*ids, *more], 1)
    assert worker.process.poll() is None
