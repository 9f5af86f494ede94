"""Real servers for every test: one embedded PostgreSQL and Valkey per session, a database of its own per test."""

import itertools
from collections.abc import Callable, Iterator

import pytest
import redis

from tenure.embedded import Servers, acquire, running
from tests.support.databases import Database, Databases
from tests.support.scratch import scratch_directory
from tests.support.servers import remove_home
from tests.support.until import until

# Valkey has 16; 0 stays free for whoever looks by hand. Taken in turn, so that a late worker of the last test
# does not consume what this one sends.
_NUMBERS = itertools.cycle(range(1, 16))


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    home = scratch_directory()
    with acquire(home, durable=False) as lease:
        yield lease.servers
    until(lambda: running(home) is None)
    remove_home(home)


@pytest.fixture(scope="session")
def databases(servers: Servers) -> Databases:
    return Databases(servers.database_url)


@pytest.fixture
def make_database(databases: Databases) -> Iterator[Callable[[], Database]]:
    """Makes migrated databases; all are dropped when the test ends."""
    made: list[Database] = []

    def make() -> Database:
        made.append(databases.create())
        return made[-1]

    yield make
    for database in made:
        database.drop()


@pytest.fixture
def database(make_database: Callable[[], Database]) -> Database:
    return make_database()


@pytest.fixture(scope="session")
def make_broker_url(servers: Servers) -> Callable[[], str]:
    """Answers an empty numbered database of the session's Valkey, another one each time."""

    def make() -> str:
        url = f"{servers.broker_url.rpartition('/')[0]}/{next(_NUMBERS)}"
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        return url

    return make


@pytest.fixture
def broker_url(make_broker_url: Callable[[], str]) -> str:
    """An empty numbered database of the session's Valkey."""
    return make_broker_url()
