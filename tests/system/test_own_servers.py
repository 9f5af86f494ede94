"""The servers of fault tests and the fixtures do what the tests built on them rely on."""

import threading
from collections.abc import Callable, Iterator

import pytest
import redis
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from tests.support.databases import Database
from tests.support.servers import OwnServers
from tests.support.until import until


@pytest.fixture(scope="module")
def own() -> Iterator[OwnServers]:
    with OwnServers() as own:
        yield own


def query(url: str, statement: str) -> object:
    engine = create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 5})
    with engine.begin() as connection:
        result = connection.execute(text(statement))
        return result.scalar() if result.returns_rows else None


@pytest.mark.parametrize("how", ["stop_postgres", "kill_postgres"])
def test_postgres_comes_back_on_the_same_port_with_its_data(own: OwnServers, how: str) -> None:
    url = own.database_url
    query(url, f"create table {how} as select 7 as kept")
    getattr(own, how)()
    with pytest.raises(OperationalError):
        query(url, "select 1")
    own.start_postgres()
    assert own.database_url == url
    assert query(url, f"select kept from {how}") == 7


def test_a_frozen_postgres_answers_only_after_the_thaw(own: OwnServers) -> None:
    engine = create_engine(own.database_url, poolclass=NullPool)
    with engine.connect() as connection:
        own.freeze_postgres()
        answers: list[object] = []
        asking = threading.Thread(target=lambda: answers.append(connection.execute(text("select 1")).scalar()))
        asking.start()
        asking.join(0.2)
        assert answers == []
        own.thaw_postgres()
        asking.join(10)
    assert answers == [1]


@pytest.mark.parametrize("how", ["stop_valkey", "kill_valkey"])
def test_valkey_comes_back_on_the_same_port_with_its_data(own: OwnServers, how: str) -> None:
    url = own.broker_url
    with redis.Redis.from_url(url) as client:
        client.set(how, "kept")
    getattr(own, how)()
    with pytest.raises(redis.ConnectionError), redis.Redis.from_url(url) as client:
        client.ping()
    own.start_valkey()
    assert own.broker_url == url
    with redis.Redis.from_url(url) as client:
        assert client.get(how) == b"kept"


def test_a_flushed_valkey_is_empty(own: OwnServers) -> None:
    with redis.Redis.from_url(own.broker_url) as client:
        client.set("a", "b")
        own.flush_valkey()
        assert client.dbsize() == 0


def test_a_frozen_valkey_answers_only_after_the_thaw(own: OwnServers) -> None:
    with redis.Redis.from_url(own.broker_url, socket_timeout=0.2, retry=None) as client:
        own.freeze_valkey()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        own.thaw_valkey()
        assert until(client.ping)


def test_each_database_is_migrated_and_its_own(make_database: Callable[[], Database]) -> None:
    one, other = make_database(), make_database()
    assert one.url != other.url
    with one.engine.begin() as connection:
        connection.execute(text("create table only_here ()"))
    for database, found in ((one, True), (other, False)):
        with database.engine.connect() as connection:
            assert connection.execute(text("select to_regclass('tasks') is not null")).scalar()
            assert connection.execute(text("select to_regclass('only_here') is not null")).scalar() is found


def test_a_dropped_database_is_gone_even_while_in_use(database: Database) -> None:
    in_use = create_engine(database.url, poolclass=NullPool).connect()
    database.drop()
    with pytest.raises(OperationalError), database.engine.connect():
        pass
    in_use.invalidate()
    in_use.close()


def test_the_broker_database_is_empty_and_not_the_default_one(broker_url: str) -> None:
    with redis.Redis.from_url(broker_url) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")
    assert not broker_url.endswith("/0")
