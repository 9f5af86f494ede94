"""The demo's stage: servers, schema, two workers that are really killed. Everything it starts, it stops."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from tenure import migrate, settings
from tenure.cli.processes import worker_command
from tenure.embedded import acquire
from tenure.model.errors import TenureError
from tenure.runtime.shutdown import Shutdown, Watcher
from tenure.store.connect import engine_for
from tenure.store.workers import ended

START_SECONDS = 30.0

_READY = text("select count(*) from workers where node = any(:nodes) and ended_at is null and started_at > :since")
_PID = text("select pid, node from workers where boot_id = :boot_id")


@dataclass
class Stage:
    """Where the demo plays. `workers` by node name."""

    engine: Engine
    database_url: str
    broker_url: str
    home: Path
    lease: float
    watcher: Watcher
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: list[UUID] = field(default_factory=list)

    def start_workers(self, *names: str) -> None:
        """Start one worker process each, and wait until all can take tasks. Raises KeyboardInterrupt at a stop."""
        with self.engine.connect() as connection:
            since = connection.execute(text("select clock_timestamp()")).scalar_one()
        for name in names:
            with (self.home / f"{name}.log").open("wb") as log:
                self.workers[name] = subprocess.Popen(
                    worker_command(concurrency=1, node=name),
                    env=self._environment(name), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
        nodes = [f"{name}@{os.uname().nodename}" for name in names]
        for _ in range(int(START_SECONDS / 0.1)):
            with self.engine.connect() as connection:
                if connection.execute(_READY, {"nodes": nodes, "since": since}).scalar_one() == len(names):
                    return
            dead = any(process.poll() is not None for process in self.workers.values())
            # A stop goes first: Ctrl-C may have ended the worker as well.
            if not self.watcher.sleep(0.1):
                raise KeyboardInterrupt
            if dead:
                break
        raise TenureError(f"the demo's workers did not start: see {self.home}/{names[0]}.log")

    def _environment(self, name: str) -> dict[str, str]:
        return {
            **os.environ,
            "TENURE_DATABASE_URL": self.database_url,
            "TENURE_BROKER_URL": self.broker_url,
            "TENURE_HOME": str(self.home / name),
            "TENURE_LEASE_SECONDS": f"{self.lease:g}",
            "TENURE_RENEW_SECONDS": f"{self.lease / 4:g}",
        }

    def kill(self, boot_id: UUID) -> str:
        """SIGKILL the worker of this boot, and answer its node once the process is gone. Its child dies with it."""
        with self.engine.connect() as connection:
            pid, node = connection.execute(_PID, {"boot_id": boot_id}).one()
        process = next((p for p in self.workers.values() if p.pid == pid), None)
        if process is None:
            raise TenureError("the task is held by a worker that is not the demo's: stop other workers first")
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.killed.append(boot_id)
        return str(node)

    def stop(self) -> None:
        """SIGTERM to what is left, and wait for it."""
        for process in self.workers.values():
            if process.poll() is None:
                process.terminate()
        for process in self.workers.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._end_killed()

    def _end_killed(self) -> None:
        """Say that the killed worker has ended: nobody else would for a while, and it is known here."""
        if not self.killed:
            return
        try:
            with self.engine.begin() as connection:
                for boot_id in self.killed:
                    ended(connection, boot_id)
        except DBAPIError:
            pass  # the database is away: that has been, or will be, told; housekeeping ends the row in time


@contextmanager
def stage(lease: float) -> Iterator[Stage]:
    """Servers (embedded, unless both URLs are set), a migrated database, and nothing running yet."""
    known = settings.load()
    shutdown = Shutdown()
    shutdown.listen_for_signals()
    with ExitStack() as stack:
        database_url = known.database_url.get_secret_value() if known.database_url else None
        broker_url = known.broker_url.get_secret_value() if known.broker_url else None
        if database_url is None or broker_url is None:
            servers = stack.enter_context(acquire(known.home)).servers
            database_url, broker_url = database_url or servers.database_url, broker_url or servers.broker_url
        migrate.migrate(database_url)
        engine = engine_for(database_url, application="tenure demo", pooled=True)
        stack.callback(engine.dispose)
        home = known.home.absolute() / "demo"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Stage(engine, database_url, broker_url, home, lease, shutdown.watcher())
        stack.callback(made.stop)
        yield made
