"""An executor in the test's own process, as a worker's child has it, and what SQL tells of its tasks afterwards."""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from pydantic import BaseModel
from sqlalchemy import Connection, Engine, text

from tenure import client
from tenure.model.kinds import Kind
from tenure.model.records import Claimed, Ended, Holder, Initiator
from tenure.model.stops import Cause
from tenure.registry import Registry
from tenure.runtime.attempt import Attempt
from tenure.runtime.channel import StopChannel
from tenure.runtime.executor import Executor
from tenure.runtime.shutdown import Shutdown
from tenure.settings import Settings
from tests.support.databases import Database

TESTER = Initiator("test", "1", "tester")
EFFECTS = "create table effects (task_id uuid not null, token bigint not null, note text not null default '')"
FULL = os.environ.get("TENURE_TEST_SCALE") == "full"


class Step(BaseModel):
    done: int = 0


def write(tx: Connection, attempt: Attempt, note: str = "") -> None:
    """An effect of a body, to be committed with its page."""
    values = {"t": attempt.task_id, "k": attempt.token, "n": note}
    tx.execute(text("insert into effects (task_id, token, note) values (:t, :k, :n)"), values)


@dataclass
class Recorder:
    """A sink that remembers."""

    begun: list[UUID] = field(default_factory=list)
    ends: list[tuple[UUID, Ended]] = field(default_factory=list)

    def started(self, claimed: Claimed) -> None:
        self.begun.append(claimed.lease.task_id)

    def ended(self, claimed: Claimed, how: Ended, seconds: float) -> None:
        assert seconds >= 0
        self.ends.append((claimed.lease.task_id, how))


class Bench:
    """One slot of a worker, in this process: an executor, the main process's side of it, and a database.

    `url` is what the executor connects to, the database's own unless given.
    """

    def __init__(self, database: Database, *kinds: Kind, url: str | None = None, **options: Any) -> None:
        self.engine: Engine = database.engine
        with self.engine.begin() as connection:
            connection.execute(text(EFFECTS.replace("table", "table if not exists", 1)))
        given = {"lease_seconds": 30.0, "run_on_seconds": 30.0, "database_url": url or database.url, **options}
        self.settings = Settings(**given)
        self.registry = Registry(kinds)
        self.channel = StopChannel(1)
        self.shutdown = Shutdown()
        self.sink = Recorder()
        self.holder = Holder(uuid4(), os.getpid())
        self.executor = Executor(
            self.settings, self.registry, self.holder, self.channel.seat(0), self.shutdown.watcher(), self.sink
        )

    def submit(self, kind: Kind, params: Any = None, *, deadline: float | None = None, **options: Any) -> UUID:
        with self.engine.begin() as connection:
            until = None if deadline is None else timedelta(seconds=deadline)
            return client.submit(connection, kind, params, initiator=TESTER, deadline=until, **options).id

    def run(self, task_id: UUID) -> int:
        """What a message does: the dispatcher has taken its hint; how many tasks were run."""
        self.rows("delete from task_hints where task_id = :t", t=task_id)
        return self.executor.run(task_id)

    def drain(self) -> int:
        """A message for every hint, until none is left; how many tasks were run."""
        ran = 0
        while row := self.first("select task_id from task_hints order by id limit 1"):
            ran += self.run(row[0])
        return ran

    def aside(self, task_id: UUID) -> threading.Thread:
        """Run it in a thread of its own; join it."""
        thread = threading.Thread(target=self.run, args=(task_id,), daemon=True)
        thread.start()
        return thread

    def cancel(self, task_id: UUID) -> None:
        """Ask in the database only: the keeper would carry it to the slot."""
        with self.engine.begin() as connection:
            client.cancel(connection, task_id, initiator=TESTER)

    def ask(self, cause: Cause) -> bool:
        """What the main process does: ask the task in the slot to stop."""
        token, _ = self.channel.held(0)
        return self.channel.ask(0, token, cause)

    def rows(self, statement: str, **values: Any) -> Sequence[Any]:
        with self.engine.begin() as connection:
            result = connection.execute(text(statement), values)
            return result.all() if result.returns_rows else []

    def first(self, statement: str, **values: Any) -> Any:
        found = self.rows(statement, **values)
        return found[0] if found else None

    def one(self, statement: str, **values: Any) -> Any:
        return self.rows(statement, **values)[0][0]

    def state(self, task_id: UUID) -> str:
        """The state, with the outcome of a failed one: `failed error`."""
        return str(self.one("select concat_ws(' ', state, outcome) from tasks where id = :id", id=task_id))

    def get(self, task_id: UUID) -> dict[str, Any]:
        with self.engine.begin() as connection:
            return client.get(connection, task_id)

    def leases(self) -> int:
        return int(self.one("select count(*) from task_leases"))

    def hints(self) -> list[UUID]:
        return [row[0] for row in self.rows("select task_id from task_hints order by id")]

    def effects(self) -> list[tuple[UUID, str]]:
        return [tuple(row) for row in self.rows("select task_id, note from effects order by task_id, note")]

    def steal(self, task_id: UUID) -> None:
        """What recovery and a next claim do, in one: the lease is another's, with a higher token."""
        self.rows(
            "update task_leases set token = nextval('lease_token'), worker = :w where task_id = :t",
            t=task_id,
            w=uuid4(),
        )

    def expire(self, task_id: UUID) -> None:
        self.rows(
            "update task_leases set expires = clock_timestamp() - interval '1 second' where task_id = :t", t=task_id
        )

    def close(self) -> None:
        self.shutdown.stop()
        self.executor.close()
