"""The servers of one bench run: embedded, durable, in a temporary home that goes away with them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from bench.processes import until
from tenure.embedded import Servers, acquire, running
from tenure.embedded.servers import Home
from tenure.migrate import migrate
from tenure.store.connect import dumps, session_arguments

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Place:
    """Where this run keeps its things. Databases and brokers are separate per contender, on the same two servers."""

    home: Path
    servers: Servers

    def database(self, name: str, *, migrated: bool = True) -> str:
        """The URL of a fresh database."""
        url = make_url(self.servers.database_url)
        admin = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.execute(text(f'drop database if exists "{name}" with (force)'))
            connection.execute(text(f'create database "{name}"'))
        made = url.set(database=name).render_as_string(hide_password=False)
        if migrated:
            migrate(made)
        return made

    def broker(self, number: int) -> str:
        """The URL of an emptied numbered database of the broker."""
        url = f"{self.servers.broker_url.rpartition('/')[0]}/{number}"
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        return url

    def engine(self) -> Engine:
        """On the server itself, for what holds for all databases."""
        return engine(self.servers.database_url)


def engine(url: str) -> Engine:
    """A connection is kept open between uses, for submitting and looking."""
    return create_engine(url, connect_args=session_arguments("bench"), json_serializer=dumps)


@contextmanager
def place() -> Iterator[Place]:
    """Start the servers; stop them and remove the home at the end. Never in memory: an fsync must cost what it costs."""
    home = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        with acquire(home, durable=True) as lease:
            yield Place(home, lease.servers)
        until(lambda: running(home) is None, seconds=20)
    finally:
        elsewhere = Home(home).elsewhere
        if elsewhere.exists():
            shutil.rmtree(elsewhere.read_text(), ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


def settled(engine: Engine, *tables: str) -> None:
    """Take the dead rows of the last run out of the next one."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"vacuum analyze {', '.join(tables)}"))
