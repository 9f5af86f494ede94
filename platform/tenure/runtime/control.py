"""The child's control thread: hears the stop for the task in hand, wakes its body, and cancels SQL that goes on.

It reads no database and writes none; deciding what the stop means is the executor's.
"""

from __future__ import annotations

import threading
import time

import structlog

from tenure.runtime.attempt import Attempt
from tenure.runtime.connections import Connections
from tenure.runtime.seat import Seat
from tenure.runtime.shutdown import Watcher

_LOOK = 0.25  # s between looks while a body runs: trust runs out without a word from anybody


class Control:
    """One per child. The executor says which attempt is in hand; the thread is a daemon and ends with the process."""

    def __init__(self, seat: Seat, shutdown: Watcher, connections: Connections) -> None:
        self._seat = seat
        self._shutdown = shutdown
        self._connections = connections
        self._attempt: Attempt | None = None
        self._log = structlog.get_logger("tenure.control")
        self._began = threading.Event()
        self._ended = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="tenure-control", daemon=True).start()

    def watch(self, attempt: Attempt | None) -> None:
        """The attempt now in hand, or None."""
        self._attempt = attempt
        if attempt is not None:
            self._began.set()

    def close(self) -> None:
        """Let the thread end, within its next look."""
        self._ended = True
        self._began.set()

    def _run(self) -> None:
        stopped_at: float | None = None
        known: Attempt | None = None
        while not self._ended:
            attempt = self._attempt
            if attempt is None:
                self._began.wait()
                self._began.clear()
                continue
            if attempt is not known:
                known, stopped_at = attempt, None
            # First look, then listen: word for this attempt may have been taken out while another was in hand.
            if not attempt.is_running():
                attempt.wake()
                now = time.monotonic()
                stopped_at = stopped_at or now
                if now - stopped_at >= attempt.spec.stop_within:
                    self._cancel(attempt)
            self._listen()

    def _listen(self) -> None:
        """Wait for word on the seat; once the process is stopping its own pipe stays readable, so only the seat counts."""
        if self._shutdown.is_running():
            if self._shutdown.wait_readable(self._seat, _LOOK):
                self._seat.wait(0)
        else:
            self._seat.wait(0.05)

    def _cancel(self, attempt: Attempt) -> None:
        try:
            asked = self._connections.cancel(lambda: self._attempt is attempt)
        except Exception as error:
            # The connection may be closing under our hands: the next look tries again.
            self._log.warning("sql_cancel_failed", error=type(error).__name__)
            return
        if asked:
            self._log.info("sql_cancelled", task_id=str(attempt.task_id), connections=asked)
