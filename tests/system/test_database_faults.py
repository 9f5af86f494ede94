"""PostgreSQL is restarted under running work: the work is resumed and done once, and no process is restarted."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import create_engine

from tenure.migrate import migrate
from tests.support.kinds.ledger import ledger
from tests.support.servers import OwnServers
from tests.support.submitted import Tasks, scaled
from tests.support.until import until
from tests.support.workers import Worker

COUNT = scaled(200, 2000)
STEPS = 2
# A body that loses its connection ends its attempt as lost: the reaper resumes it when the lease has run out.
SHORT_LEASE = {"TENURE_LEASE_SECONDS": "3", "TENURE_RENEW_SECONDS": "1"}


@pytest.fixture(scope="module")
def own() -> Iterator[OwnServers]:
    with OwnServers(valkey=False) as own:
        migrate(own.database_url)
        yield own


@pytest.fixture(scope="module")
def tasks(own: OwnServers) -> Iterator[Tasks]:
    engine = create_engine(own.database_url, pool_pre_ping=True)
    yield Tasks(engine)
    engine.dispose()


@pytest.fixture(scope="module")
def worker(own: OwnServers, module_broker: str, tasks: Tasks) -> Iterator[Worker]:
    with Worker(own.database_url, module_broker, env=SHORT_LEASE) as worker:
        yield worker.wait_ready()


@pytest.mark.parametrize("end", [OwnServers.stop_postgres, OwnServers.kill_postgres])
def test_with_the_database_restarted_in_mid_run_every_task_ends_exactly_once(
    own: OwnServers, worker: Worker, tasks: Tasks, end: Callable[[OwnServers], None]
) -> None:
    before, noticed = tasks.ended(), len(worker.lines("service_waits"))
    ids = tasks.submit(ledger, COUNT, steps=STEPS, seconds=0.01)
    until(lambda: tasks.ended() >= before + COUNT // 10, 60)
    assert tasks.ended() < before + COUNT, "the fault must come in mid-run"
    pool = worker.pool()
    end(own)
    until(lambda: len(worker.lines("service_waits")) > noticed)
    own.start_postgres()
    tasks.wait_ended(ids, 60 + COUNT / 20, watch=[worker])
    tasks.assert_exactly_once(ids, STEPS)
    assert worker.pool() == pool
    assert worker.process.poll() is None
