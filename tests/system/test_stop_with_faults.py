"""SIGTERM while what the worker needs is away: it leaves in time, and what it could not write is recovered from the lease."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import psycopg2
import pytest
from sqlalchemy import create_engine, text

from tenure.migrate import migrate
from tenure.store.hot import driver_dsn
from tests.support import stopping
from tests.support.kinds.ledger import ledger
from tests.support.servers import OwnServers
from tests.support.submitted import FULL, Tasks
from tests.support.workers import Worker

STEPS = 60
SECONDS = 0.05


@pytest.fixture(scope="module")
def own() -> Iterator[OwnServers]:
    with OwnServers() as own:
        migrate(own.database_url)
        yield own


@pytest.fixture(scope="module")
def own_tasks(own: OwnServers) -> Iterator[Tasks]:
    engine = create_engine(own.database_url, pool_pre_ping=True)
    yield Tasks(engine)
    engine.dispose()


@contextmanager
def tasks_locked(own: OwnServers) -> Iterator[None]:
    engine = create_engine(own.database_url)
    with engine.begin() as connection:
        connection.execute(text("lock table tasks in access exclusive mode"))
        yield
    engine.dispose()


@contextmanager
def connections_exhausted(own: OwnServers) -> Iterator[None]:
    with ExitStack() as opened:
        try:
            while True:
                opened.callback(psycopg2.connect(**driver_dsn(own.database_url)).close)
        except psycopg2.OperationalError:
            yield


@contextmanager
def postgres_stopped(own: OwnServers) -> Iterator[None]:
    own.stop_postgres()
    yield
    own.start_postgres()


@contextmanager
def postgres_frozen(own: OwnServers) -> Iterator[None]:
    own.freeze_postgres()
    yield
    own.thaw_postgres()


@contextmanager
def valkey_frozen(own: OwnServers) -> Iterator[None]:
    own.freeze_valkey()
    yield
    own.thaw_valkey()


Fault = Callable[[OwnServers], AbstractContextManager[None]]
# What the worker can still write it writes; the rest is resumed by another worker: `ledger` resumes when lost.
WRITTEN, RESUMED = "failed service_unavailable", "succeeded"
SHORT: list[tuple[Fault, str, set[int]]] = [
    (tasks_locked, RESUMED, {0}),
    (connections_exhausted, WRITTEN, {0}),
]
# A thread that hangs in a frozen server does not end: exit code 1 says so.
LONG: list[tuple[Fault, str, set[int]]] = [
    (postgres_stopped, RESUMED, {0}),
    (valkey_frozen, WRITTEN, {0}),
    (postgres_frozen, RESUMED, {1}),
]


@pytest.mark.parametrize("fault, outcome, codes", SHORT + (LONG if FULL else []))
def test_a_worker_leaves_in_time_and_its_tasks_end_by_the_rules(
    own: OwnServers, own_tasks: Tasks, fault: Fault, outcome: str, codes: set[int]
) -> None:
    ids = own_tasks.submit(ledger, 2, steps=STEPS, seconds=SECONDS)
    with Worker(own.database_url, own.broker_url, name="leaving", env=stopping.SHORT_LEASE) as leaving:
        leaving.wait_ready()
        stopping.in_body(own_tasks, ids)
        with fault(own):
            code, seconds = leaving.stop()
        said = leaving.text()[-3000:]
        print(f"\nFIGURE SIGTERM to exit, {fault.__name__}: {seconds:.1f} s, code {code}")
        assert seconds < stopping.EXIT_S, said
        assert code in codes, said
        assert len(leaving.lines("stopped")) == 1
        stopping.assert_nobody_left(own_tasks, leaving)
    if outcome == RESUMED:
        with Worker(own.database_url, own.broker_url, name="next", env=stopping.SHORT_LEASE) as following:
            following.wait_ready()
            own_tasks.wait_ended(ids, 40, watch=[following])
        own_tasks.assert_exactly_once(ids, STEPS)
    assert own_tasks.states(ids) == {outcome: 2}, said
    assert own_tasks.leases() == 0
