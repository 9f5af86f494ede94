"""The child processes of `tenure up`: started together, stopped in order, and ended with us however we end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tenure.cli import processes
from tenure.cli.output import note
from tenure.runtime.shutdown import Shutdown

_PACE = 0.2
# Whoever makes work goes first, whoever only looks goes last; seconds until SIGKILL. A worker leaves within 30 s.
_ORDER = {"beat": 10.0, "worker": 35.0, "flower": 5.0}


class Family:
    """Use it as a context: no child outlives the block. SIGINT and SIGTERM ask for the stop."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._dead: str | None = None
        shutdown = Shutdown()
        shutdown.listen_for_signals(signal.SIGTERM, signal.SIGINT)
        self._stop = shutdown.watcher()

    def start_all(self, *, concurrency: int | None, flower_port: int) -> None:
        """Start worker, beat and Flower. What they say goes to our stderr."""
        self._start("worker", processes.worker_command(concurrency=concurrency))
        self._start("beat", processes.beat_command())
        self._start("flower", processes.flower_command(port=flower_port, address="127.0.0.1"))

    def _start(self, name: str, command: list[str]) -> None:
        # A group of its own: Ctrl-C in the terminal is for us, the children are told in order.
        self._children[name] = subprocess.Popen(
            command, env=self._environment, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), process_group=0,
            preexec_fn=_end_with_parent() if sys.platform == "linux" else None,
        )  # fmt: skip

    def wait_ready(self, timeout: float, flower_port: int) -> bool:
        """True once the worker has registered and Flower answers; False at a stop, a death or the timeout (told)."""
        from tenure.cli.ready import listens, registered

        waits: dict[str, Callable[[], bool]] = {
            "worker": lambda: registered(self._environment["TENURE_DATABASE_URL"], self._children["worker"].pid),
            "flower": lambda: listens("127.0.0.1", flower_port),
        }
        until = time.monotonic() + timeout
        while waits:
            if not self._all_live():
                return False
            waits = {name: ready for name, ready in waits.items() if not ready()}
            if waits and time.monotonic() > until:
                self._dead = ", ".join(waits)
                note(f"not ready within {timeout:g} s: {self._dead}")
                return False
            if waits and not self._stop.sleep(_PACE):
                return False
        return True

    def wait_stop(self) -> None:
        """Return at a stop, or when a child has died."""
        while self._all_live() and self._stop.sleep(_PACE):
            pass

    def _all_live(self) -> bool:
        for name, child in self._children.items():
            code = child.poll()
            if code is not None and self._stop.is_running() and self._dead is None:
                self._dead = name
                note(f"{name} has ended by itself (exit code {code}): stopping the rest")
        return self._dead is None and self._stop.is_running()

    def stop_all(self) -> int:
        """Stop them in order; 0, or 1 when one had died, was not ready or had to be killed."""
        killed = [name for name, patience in _ORDER.items() if name in self._children and not self._end(name, patience)]
        for name in killed:
            note(f"{name} did not stop in time and was killed")
        return 1 if killed or self._dead else 0

    def _end(self, name: str, patience: float) -> bool:
        child = self._children.pop(name)
        child.terminate()  # nothing is sent to one that has ended: its exit status is kept until polled
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop_all()


def _end_with_parent() -> Callable[[], None]:
    """For the child, before exec: SIGTERM when `tenure up` is killed. Nothing but system calls: it runs after fork."""
    import ctypes
    import os

    set_parent_death_signal, parent = 1, os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def arm() -> None:
        prctl(set_parent_death_signal, int(signal.SIGTERM))
        if os.getppid() != parent:
            os._exit(1)

    return arm
