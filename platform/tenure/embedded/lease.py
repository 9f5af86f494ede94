"""Leases on the servers of a home. They run while at least one lease is held; the kernel notices a killed holder."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tenure.embedded import binaries, locks, place
from tenure.embedded.errors import EmbeddedStartFailed
from tenure.embedded.servers import Home, Servers


class EmbeddedLease:
    """Keeps the servers of a home up. Hold the object: when it is released or collected, or its process ends, the
    lease is gone, and with the last one the servers stop within a second."""

    def __init__(self, servers: Servers, file: io.FileIO) -> None:
        self.servers = servers
        self._file = file

    def release(self) -> None:
        """Let go; a second call does nothing. Does not wait for the servers to stop."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def acquire(home: Path, *, timeout: float = 60.0, durable: bool = True) -> EmbeddedLease:
    """Start the servers of `home`, or join them, and return a lease once both take work.

    `timeout` is in seconds. `durable=False` trades safety against a power cut for speed and keeps nothing of the
    broker; it only matters to whoever starts them. EmbeddedUnavailable: no binaries here. EmbeddedStartFailed: the
    home cannot be used or a server did not start.
    """
    deadline = time.monotonic() + timeout
    binaries.find()
    here = place.make_home(home)
    try:
        gate, lease = locks.open_lock(here.gate), locks.open_lock(here.lease)
    except OSError as error:
        raise EmbeddedStartFailed(f"cannot write to {here.path}: {error.strerror}") from None
    try:
        # One starter at a time; and no lease is had while a supervisor is stopping its servers.
        with gate:
            if not (locks.wait_lock(gate, deadline) and locks.wait_lock(lease, deadline, shared=True)):
                raise _too_late(here, timeout)
            return EmbeddedLease(_join_or_start(here, deadline, timeout, durable), lease)
    except BaseException:
        lease.close()
        raise


def running(home: Path) -> Servers | None:
    """The servers of `home` if a supervisor runs them now, else None. Takes no lease and creates nothing."""
    here = Home(home.resolve())
    return here.published() if locks.is_locked(here.supervisor) else None


def _join_or_start(home: Home, deadline: float, timeout: float, durable: bool) -> Servers:
    started = False
    while time.monotonic() < deadline:
        if locks.is_locked(home.supervisor):
            if servers := home.published():
                return servers
            time.sleep(locks.PACE)
        elif started:
            raise EmbeddedStartFailed(_last_words(home))
        else:
            home.info.unlink(missing_ok=True)  # of a killed supervisor
            _start_supervisor(home, max(deadline - time.monotonic(), 1.0), durable)
            started = True
    raise _too_late(home, timeout)


def _start_supervisor(home: Home, timeout: float, durable: bool) -> None:
    # -P and absolute paths: what lies in the working directory never becomes code of the supervisor.
    command = [sys.executable, "-P", "-m", "tenure.embedded.supervisor", str(home.path), "--timeout", str(timeout)]
    if not durable:
        command.append("--not-durable")
    environment = dict(os.environ)
    if paths := environment.get("PYTHONPATH"):
        environment["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths.split(os.pathsep))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    with open(os.open(home.supervisor_log, flags, 0o600), "ab") as log:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd="/",
            env=environment,
            start_new_session=True,  # Ctrl-C in the terminal is for the holders
            check=False,
        )
    if done.returncode:
        raise EmbeddedStartFailed(f"the supervisor of {home.path} did not start; {home.supervisor_log} says why")


def _last_words(home: Home) -> str:
    """The refusal the supervisor wrote, or where to look when it ended in another way."""
    lines = home.supervisor_log.read_text(errors="replace").splitlines()
    if len(lines) == 1:
        return lines[0]
    return f"the supervisor of {home.path} ended; {home.supervisor_log} says why"


def _too_late(home: Home, timeout: float) -> EmbeddedStartFailed:
    return EmbeddedStartFailed(f"the servers of {home.path} were not up within {timeout:g} s; see the logs there")
