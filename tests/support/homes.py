"""Other processes that hold leases on a home, and what runs for it. They are started, watched and killed by pid."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tenure.embedded import acquire
from tenure.embedded.servers import Home
from tests.support.until import until

# The home travels in the environment, so that only supervisor and servers show it in their arguments.
_HOLD = """
import os, signal, sys
from pathlib import Path
from tenure.embedded import acquire
# A parent in the background of a shell hands down an ignored SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
lease = acquire(Path(os.environ["HELD_HOME"]), durable=False)
print(lease.servers.pid, lease.servers.mode, lease.servers.database_url, lease.servers.broker_url, flush=True)
sys.stdin.read()
lease.release()
"""


class Holder:
    """A process that acquires a lease and keeps it until it is told to go, or killed."""

    def __init__(
        self,
        home: Path,
        *,
        python: str = sys.executable,
        before: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.process = subprocess.Popen(
            [*before, python, "-c", _HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {}), "HELD_HOME": str(home)},
            **options,
        )

    def addresses(self) -> list[str]:
        """Supervisor pid, mode, database URL and broker URL, once the servers are up."""
        assert self.process.stdout
        assert self.process.stderr
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return line.split()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            pass  # closes its stdin, which is how it is told to go, and waits


def make_seed(path: Path) -> None:
    """A home whose servers have run and are down: copies of it spare a test the making of a database."""
    acquire(path, durable=False).release()
    until(lambda: not running_for(path))
    for file in path.glob("*.port"):
        file.unlink()


def plant(seed: Path, home: Path) -> None:
    shutil.copytree(seed, home)


@dataclass(frozen=True)
class Process:
    pid: int
    arguments: str


def processes() -> list[Process]:
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    rows = (line.strip().partition(" ") for line in listed.splitlines())
    return [Process(int(pid), arguments) for pid, _, arguments in rows]


def running_for(path: Path) -> list[Process]:
    """The processes with that directory in their arguments: supervisor, servers, initdb."""
    return [process for process in processes() if str(path) in process.arguments]


def supervisor_of(home: Path) -> int | None:
    try:
        return int(Home(home).supervisor.read_text() or 0) or None
    except FileNotFoundError:
        return None


def kill(*pids: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended with its parent
