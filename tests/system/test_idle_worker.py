"""What a worker costs while there is nothing to do: counted by the server, not guessed from the code."""

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from tenure.migrate import migrate
from tests.support.servers import OwnServers
from tests.support.workers import Worker

SECONDS = 5.0
PER_SECOND = 5.0
_CALLS = text("""select query, calls from pg_stat_statements s join pg_database d on d.oid = s.dbid
    where d.datname = current_database() and query not like '%pg_stat_statements%'""")


@pytest.fixture(scope="module")
def counting() -> Iterator[tuple[OwnServers, Engine]]:
    """A server that counts statements, and an unpooled engine on it."""
    with OwnServers(valkey=False) as own:
        engine = create_engine(own.database_url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("alter system set shared_preload_libraries = 'pg_stat_statements'"))
        own.stop_postgres()
        own.start_postgres()
        with engine.connect() as connection:
            connection.execute(text("create extension pg_stat_statements"))
        migrate(own.database_url)
        yield own, engine


def calls(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        return {row[0]: int(row[1]) for row in connection.execute(_CALLS)}


def test_an_idle_worker_makes_few_statements(counting: tuple[OwnServers, Engine], module_broker: str) -> None:
    own, engine = counting
    with Worker(own.database_url, module_broker) as worker:
        worker.wait_ready()
        worker.wait_for("broker_changed")
        before = calls(engine)
        time.sleep(SECONDS)
        after = calls(engine)
    made = {query: count - before.get(query, 0) for query, count in after.items() if count > before.get(query, 0)}
    assert made, "the worker does nothing at all"
    shown = "\n".join(f"{count:4} {' '.join(query.split())[:100]}" for query, count in sorted(made.items()))
    assert sum(made.values()) / SECONDS <= PER_SECOND, shown
