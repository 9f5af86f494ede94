"""What starting, watching and stopping have in common for the two servers. Called by the owner of the home only."""

import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

from tenure.embedded import ports
from tenure.embedded.errors import EmbeddedStartFailed
from tenure.embedded.locks import PACE
from tenure.embedded.place import Place
from tenure.embedded.servers import write_private

_LOG_LIMIT = 4 << 20
_STOP_PATIENCE = 30.0


class Server(ABC):
    """One server process. The first start picks a port (the remembered one if it is free); later starts of the
    same object keep it, because the addresses have been handed out."""

    name: str
    stop_signal: signal.Signals

    def __init__(self, place: Place) -> None:
        self.place = place
        self.port: int | None = None
        self.log = place.logs / f"{self.name}.log"
        self._port_file = place.logs / f"{self.name}.port"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def directory(self) -> Path:
        """The server's data; it exists only once it is complete."""
        return self.place.data / self.name

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def prepare(self) -> None:
        """Make the data directory if there is none, and clear what a killed predecessor left."""

    @abstractmethod
    def command(self, port: int) -> list[str | Path]: ...

    @abstractmethod
    def ready(self, port: int) -> bool:
        """Whether our process (not some other one on that port) takes work."""

    def start(self, timeout: float = 60.0) -> None:
        """Return once the server takes work. EmbeddedStartFailed when it ends or is not ready within `timeout`
        seconds; nothing of it runs then."""
        deadline = time.monotonic() + timeout
        self.prepare()
        self._rotate_log()
        while True:
            port = self.port or ports.remembered(self._port_file) or ports.free()
            if port is None:
                raise EmbeddedStartFailed("there is no free port on the loopback interface")
            offset = self.log.stat().st_size if self.log.exists() else 0
            self._process = self.place.launcher.popen(self.command(port), self.log, self.stop_signal)
            if self._await_ready(port, deadline):
                self.port = port
                write_private(self._port_file, str(port))
                return
            if not self._worth_another_try(offset) or time.monotonic() >= deadline:
                self.stop()
                raise EmbeddedStartFailed(f"the embedded {self.name} did not start; {self.log} says why")
            time.sleep(PACE)

    def stop(self) -> None:
        """Ask, and insist when it takes too long. Does nothing when it is not running."""
        if self._process is None:
            return
        for request in (self.stop_signal, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(request)
                self._process.send_signal(signal.SIGCONT)  # a stopped process would never see the request
            try:
                self._process.wait(_STOP_PATIENCE)
                break
            except subprocess.TimeoutExpired:
                continue
        self._process = None

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _await_ready(self, port: int, deadline: float) -> bool:
        while self.alive() and time.monotonic() < deadline:
            if self.ready(port):
                return True
            time.sleep(PACE)
        return False

    def _worth_another_try(self, offset: int) -> bool:
        if self.alive():
            return False
        with self.log.open("rb") as log:
            log.seek(offset)
            text = log.read()
        # The port was taken since we looked; or children of a killed postmaster have not noticed its end yet.
        return b"Address already in use" in text or b"shared memory block" in text

    def _rotate_log(self) -> None:
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT:
            self.log.replace(self.log.with_name(self.log.name + ".1"))


def end_orphan(pid_file: Path, marks: tuple[str, ...], request: signal.Signals) -> None:
    """Stop the server that wrote `pid_file` if it still runs, then remove the file. A pid alone proves nothing (it
    may belong to another process by now): every one of `marks` must be an argument of that process."""
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        pid = 0
    deadline = time.monotonic() + _STOP_PATIENCE
    asked = False
    while pid > 0 and all(mark in _arguments(pid) for mark in marks):
        try:
            if not asked or time.monotonic() >= deadline:
                os.kill(pid, signal.SIGKILL if asked else request)
                os.kill(pid, signal.SIGCONT)
                asked = True
        except ProcessLookupError:
            break
        time.sleep(PACE)
    pid_file.unlink(missing_ok=True)


def _arguments(pid: int) -> list[str]:
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
        except OSError:
            return []
    listed = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.split()
