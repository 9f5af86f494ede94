"""Runs procrastinate with its own worker: as many processes as we have slots, one job at a time each, on the same PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg
from procrastinate import App, SyncPsycopgConnector
from psycopg.conninfo import make_conninfo

from bench.place import Place
from bench.processes import BenchError, process, until
from bench.worker import SLOTS
from tenure.store.hot import driver_dsn

_LEFT = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
_FAILED = "select count(*) from procrastinate_jobs where status <> 'succeeded'"
_AT = "select job_id, extract(epoch from at)::float8 from procrastinate_events where type = %s and job_id = any(%s)"


@dataclass(frozen=True)
class Procrastinate:
    """The sending side: its synchronous connector, and a session to look at its tables."""

    place: Place
    app: App
    conninfo: str
    look: psycopg.Connection

    @contextmanager
    def workers(self, *, concurrency: int = 1) -> Iterator[None]:
        environment = {"BENCH_PROCRASTINATE": self.conninfo}
        command = ["-m", "procrastinate", "--app=bench.contenders.procrastinate_app.app", "worker"]
        with ExitStack() as stack:
            for number in range(SLOTS):
                name = f"procrastinate-{number}"
                started = [*command, "--name", name, "--concurrency", str(concurrency)]
                stack.enter_context(process(name, started, logs=self.place.home, environment=environment))
            yield

    def rate(self, n: int) -> float:
        """Tasks/s from the commit of one batch to the last end."""
        ids = self.app.configure_task("noop", queue="bench").batch_defer(*[{} for _ in range(n)])
        began = self._one("select extract(epoch from clock_timestamp())::float8")
        self.wait()
        return n / (max(self.times("succeeded", ids).values()) - began)

    def defer(self) -> tuple[int, float]:
        """One job; (its id, time of day after its commit)."""
        return self.app.configure_task("noop", queue="bench").defer(), time.time()

    def wait(self) -> None:
        until(lambda: self._one(_LEFT) == 0, seconds=120, pace=0.1, what="procrastinate")
        if self._one(_FAILED):
            raise BenchError("procrastinate: some jobs did not succeed")

    def times(self, event: str, ids: list[int]) -> dict[int, float]:
        return dict(self.look.execute(_AT, [event, ids]).fetchall())

    def _one(self, statement: str) -> float:
        row = self.look.execute(statement).fetchone()
        assert row is not None
        return float(row[0])


@contextmanager
def procrastinate(place: Place) -> Iterator[Procrastinate]:
    """A database of its own with procrastinate's schema in it."""
    conninfo = make_conninfo(**driver_dsn(place.database("procrastinate", migrated=False)))
    # An app without tasks sends by name: the workers have the task.
    here = App(connector=SyncPsycopgConnector(conninfo=conninfo))
    with here.open(), psycopg.connect(conninfo, autocommit=True) as look:
        here.schema_manager.apply_schema()
        yield Procrastinate(place, here, conninfo, look)
