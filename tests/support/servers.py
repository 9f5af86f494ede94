"""Servers of one test, to be stopped, killed, frozen and flushed. The test process owns them: no supervisor."""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Self

import redis

from tenure.embedded.place import make_home, settle
from tenure.embedded.postgres import Postgres
from tenure.embedded.server import Server
from tenure.embedded.servers import Home
from tenure.embedded.valkey import Valkey
from tests.support.scratch import scratch_directory


class OwnServers:
    """A private PostgreSQL and/or Valkey. Ports stay the same over restarts; the data stays, too, over stop and kill
    (PostgreSQL runs without fsync, Valkey with its append-only file). Call it from the main thread: on Linux a
    server started by another thread is not stopped by the kernel when the test process is killed.

    `database_url` is the empty database `tenure`; migrate it, or create others on that server.
    """

    def __init__(self, *, postgres: bool = True, valkey: bool = True) -> None:
        self._home = make_home(scratch_directory())
        self._postgres = Postgres(settle(self._home, durable=False))
        self._valkey = Valkey(settle(self._home, durable=True))
        try:
            if postgres:
                self._postgres.start()
            if valkey:
                self._valkey.start()
        except BaseException:
            self.close()
            raise

    @property
    def database_url(self) -> str:
        assert self._postgres.port, "this test asked for no PostgreSQL"
        return self._postgres.url

    @property
    def broker_url(self) -> str:
        assert self._valkey.port, "this test asked for no Valkey"
        return self._valkey.url

    def start_postgres(self) -> None:
        self._postgres.start()

    def stop_postgres(self) -> None:
        """A fast stop: sessions are ended, everything is written."""
        self._postgres.stop()

    def kill_postgres(self) -> None:
        """SIGKILL to the postmaster; its children notice and end. The next start recovers from the log."""
        self._postgres.kill()

    def freeze_postgres(self) -> None:
        """Nothing answers any more, though connections are still accepted by the kernel."""
        _signal(self._postgres, signal.SIGSTOP)

    def thaw_postgres(self) -> None:
        _signal(self._postgres, signal.SIGCONT)

    def start_valkey(self) -> None:
        self._valkey.start()

    def stop_valkey(self) -> None:
        self._valkey.stop()

    def kill_valkey(self) -> None:
        self._valkey.kill()

    def freeze_valkey(self) -> None:
        _signal(self._valkey, signal.SIGSTOP)

    def thaw_valkey(self) -> None:
        _signal(self._valkey, signal.SIGCONT)

    def flush_valkey(self) -> None:
        """Every queue, result and event is lost, as after a broker without persistence was replaced."""
        with redis.Redis.from_url(self.broker_url) as client:
            client.flushall()

    def close(self) -> None:
        """Stop both, frozen or not, and remove their data."""
        if self._postgres.alive():
            self.thaw_postgres()
        self._valkey.stop()
        self._postgres.stop()
        remove_home(self._home.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def remove_home(path: Path) -> None:
    """Remove a home whose servers are down, and the data it keeps elsewhere."""
    home = Home(path)
    if home.elsewhere.exists():
        shutil.rmtree(home.elsewhere.read_text())
    shutil.rmtree(path)


def _signal(server: Server, number: signal.Signals) -> None:
    # The parent first: while it is frozen it starts no further child.
    assert server.pid, f"{server.name} does not run"
    _send(number, server.pid)
    _send(number, *children(server.pid))


def _send(number: signal.Signals, *pids: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # a child that ended by itself meanwhile


def children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return [int(pid) for pid, of in rows if int(of) == parent]
