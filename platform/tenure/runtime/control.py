"""The child's control thread: hears the stop for the task in hand, wakes its body, cancels SQL that goes on, and ends
the process of a body that does not hear.

It reads no database and writes none; what a stop means is the executor's to decide, or the main process's afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from tenure.model.stops import Cause
from tenure.runtime import times
from tenure.runtime.attempt import Attempt
from tenure.runtime.connections import Connections
from tenure.runtime.masking import signals_masked
from tenure.runtime.seat import Seat
from tenure.runtime.shutdown import Watcher

_LOOK = 0.25  # s between looks while a body runs: trust runs out without a word from anybody


class Control:
    """One per child. The executor says which attempt is in hand; the thread is a daemon and ends with the process."""

    def __init__(
        self, seat: Seat, shutdown: Watcher, connections: Connections, leave: Callable[[], None] | None = None
    ) -> None:
        self._seat = seat
        self._shutdown = shutdown
        self._connections = connections
        self._leave = leave
        self._attempt: Attempt | None = None
        self._busy = False
        self._said: Attempt | None = None  # whose cancelled SQL stands in the log already
        self._log = structlog.get_logger("tenure.control")
        self._began = threading.Event()
        self._ended = False

    def start(self) -> None:
        # Signals are the body thread's: here one would be taken while that thread masks it for its last write.
        with signals_masked():
            threading.Thread(target=self._run, name="tenure-control", daemon=True).start()

    def watch(self, attempt: Attempt | None) -> None:
        """The attempt whose body now runs, or None."""
        self._attempt = attempt
        if attempt is not None:
            self._began.set()

    def busy(self, now: bool) -> None:
        """Whether the executor is at work at all: claiming and ending count too."""
        self._busy = now
        self._began.set()

    def close(self) -> None:
        """Let the thread end, within its next look."""
        self._ended = True
        self._began.set()

    def _run(self) -> None:
        stopped_at: float | None = None
        known: Attempt | None = None
        shut_at: float | None = None
        while not self._ended:
            attempt = self._attempt
            if not self._busy:
                self._began.wait()
                self._began.clear()
                continue
            now = time.monotonic()
            if attempt is not known:
                known, stopped_at = attempt, None
            # First look, then listen: word for this attempt may have been taken out while another was in hand.
            if attempt is not None and not attempt.is_running():
                stopped_at = stopped_at or now
                self._escalate(attempt, now - stopped_at)
            if not self._shutdown.is_running():
                shut_at = shut_at or now
                drain = attempt.spec.drain if attempt and attempt.spec.on_shutdown == "finish" else 0.0
                if now - shut_at >= times.T_CHILD_SHUTDOWN + drain:
                    self._end(attempt, "shutdown")
            self._listen()

    def _escalate(self, attempt: Attempt, elapsed: float) -> None:
        attempt.wake()
        shutdown = self._seat.stop_cause() in (0, Cause.SHUTDOWN) and self._seat.trusted()
        within = times.T_CHILD_SHUTDOWN if shutdown else attempt.spec.stop_within
        if elapsed >= (times.T_SQL_SHUTDOWN if shutdown else within * times.SQL_SHARE):
            self._cancel(attempt)
        if elapsed >= within and self._attempt is attempt:
            self._end(attempt, "shutdown" if shutdown else "stop")

    def _end(self, attempt: Attempt | None, why: str) -> None:
        """The body hears nothing: the process leaves, and the main process writes how the task ended."""
        if self._leave is None:
            return
        task_id = str(attempt.task_id) if attempt else None
        self._log.warning("child_leaves", task_id=task_id, kind=attempt.spec.name if attempt else None, why=why)
        self._leave()

    def _listen(self) -> None:
        """Wait for word on the seat; once the process is stopping its own pipe stays readable, so only the seat counts."""
        attempt = self._attempt
        stopping = attempt is not None and not attempt.is_running()
        if stopping or not self._shutdown.is_running():
            self._seat.wait(0.05)
        elif self._shutdown.wait_readable(self._seat, _LOOK):
            self._seat.wait(0)

    def _cancel(self, attempt: Attempt) -> None:
        try:
            asked = self._connections.cancel(lambda: self._attempt is attempt)
        except Exception as error:
            # The connection may be closing under our hands: the next look tries again.
            self._log.warning("sql_cancel_failed", error=type(error).__name__)
            return
        if asked and attempt is not self._said:
            self._said = attempt
            self._log.info("sql_cancelled", task_id=str(attempt.task_id), connections=asked)
