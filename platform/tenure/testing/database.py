"""A database for tests of kinds: run a task in this process as a worker would, let time pass, read what happened.

Statements and executor are the real ones; only the process around them is the test's. Never for production: `expire_lease`
takes a task from a worker that is alive.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from tenure import client
from tenure.embedded import acquire, running
from tenure.embedded.servers import Home, Servers
from tenure.migrate import migrate
from tenure.model.errors import NotEnded
from tenure.model.kinds import Kind
from tenure.model.records import Claimed, Ended, Holder, Initiator
from tenure.registry import Registry
from tenure.runtime.channel import StopChannel
from tenure.runtime.executor import Executor
from tenure.runtime.shutdown import Shutdown
from tenure.settings import Settings
from tenure.store import leases
from tenure.store.connect import engine_for
from tenure.store.transitions import due
from tenure.store.transitions.recover import recover_expired
from tenure.waiting import naps

TESTER = Initiator("test", "test", "a test")
STOP_S = 20.0
_TEMPLATE = "tenure_template"


class _Unseen:
    """Nobody looks at events here; history has them all."""

    def started(self, claimed: Claimed) -> None:
        pass

    def ended(self, claimed: Claimed, how: Ended, seconds: float) -> None:
        pass


class Database:
    """One migrated database. `url` and `engine` are for the code under test."""

    def __init__(self, owner: Databases, name: str) -> None:
        self._owner = owner
        self.name = name
        self.url = owner.url_of(name)

    @cached_property
    def engine(self) -> Engine:
        return engine_for(self.url, application="tenure test", pooled=True)

    def submit_and_run(self, kind: Kind, params: Any = None, **options: Any) -> dict[str, Any]:
        """Submit, also a kind that is internal, and `run`."""
        given = {"initiator": TESTER, **options}
        with self.engine.begin() as connection:
            task_id = client.create(connection, kind.spec, params, **given).id
        return self.run(task_id, kind)

    def run(self, task_id: UUID, *kinds: Kind) -> dict[str, Any]:
        """Claim the task, run its body here, write its end, and answer it. One attempt: a task that is to be tried again
        is `scheduled` (see `make_due`). Unchanged if it cannot be claimed: ended, paused, not due, of none of these kinds.
        """
        shutdown = Shutdown()
        settings = Settings(database_url=self.url, direct_url=None, run_on_tasks=1)
        seat, holder = StopChannel(1).seat(0), Holder(uuid4(), os.getpid())
        executor = Executor(settings, Registry(kinds), holder, seat, shutdown.watcher(), _Unseen())
        try:
            executor.run(task_id)
        finally:
            shutdown.stop()
            executor.close()
        return self.get(task_id)

    def get(self, task_id: UUID) -> dict[str, Any]:
        """`client.get`."""
        with self.engine.connect() as connection:
            return client.get(connection, task_id)

    def history(self, task_id: UUID) -> list[str]:
        """The verbs of its history, oldest first: `["submit", "claim", "succeed"]`."""
        return [moment["verb"] for moment in self.get(task_id)["history"]]

    def expire_lease(self, task_id: UUID) -> bool:
        """Let the lease of a running task run out, as if its worker had been silent too long: whatever the attempt writes
        from now on is refused. Called from the body, or beside it. False: nobody holds the task."""
        with self.engine.begin() as connection:
            return leases.run_out(connection, task_id)

    def recover(self, *, crash_bound: int = 3) -> list[tuple[UUID, str]]:
        """What a reaper does with expired leases: (task, its new state) of each that it settled."""
        settled: list[tuple[UUID, str]] = []
        while True:
            with self.engine.begin() as connection:
                found = recover_expired(connection, crash_bound=crash_bound)
            if not found:
                return settled
            settled += [(task_id, state) for task_id, state, _ in found]

    def make_due(self, task_id: UUID) -> bool:
        """Let the time of a scheduled task come: its start, or its next attempt. False: it is not scheduled."""
        with self.engine.begin() as connection:
            moved = due.make_due(connection, task_id)
        with self.engine.begin() as connection:
            due.promote(connection)
        return moved

    def drop(self) -> None:
        """Close our sessions, end those of others, and drop it."""
        self.engine.dispose()
        self._owner.execute(f'drop database if exists "{self.name}" with (force)')


class Databases:
    """All databases of a test session: each is cloned from one that is migrated once."""

    def __init__(self, servers: Servers) -> None:
        self._url = make_url(servers.database_url)
        self._admin = create_engine(self._url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self._numbers = itertools.count(1)
        self.broker_url = servers.broker_url
        self.execute(f"create database {_TEMPLATE}")
        migrate(self.url_of(_TEMPLATE))
        # Nobody may be connected to a template while it is cloned.
        self.execute(f"alter database {_TEMPLATE} allow_connections false")

    def create(self) -> Database:
        name = f"tenure_test_{next(self._numbers)}"
        self.execute(f'create database "{name}" template {_TEMPLATE}')
        return Database(self, name)

    def url_of(self, name: str) -> str:
        return self._url.set(database=name).render_as_string(hide_password=False)

    def execute(self, statement: str) -> None:
        with self._admin.connect() as connection:
            connection.execute(text(statement))


@contextmanager
def databases(home: Path) -> Iterator[Databases]:
    """Servers in this directory, without fsync; stopped, and their data removed, at the end of the block."""
    with acquire(home, durable=False) as lease:
        yield Databases(lease.servers)
    for _ in naps(STOP_S):
        if running(home) is None:
            break
    else:
        raise NotEnded(f"the embedded servers of this test session have not stopped in {STOP_S:g} s")
    elsewhere = Home(home).elsewhere
    if elsewhere.exists():
        shutil.rmtree(elsewhere.read_text(), ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
