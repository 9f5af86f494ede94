"""A service: one named thread that steps `run_once` until the stop. Its loop outlives the database, never its own bugs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import psycopg2
import structlog
from sqlalchemy.exc import DBAPIError

from tenure.model.errors import Unavailable
from tenure.runtime.backoff import Backoff
from tenure.runtime.shutdown import Watcher


class Service(Protocol):
    """What is stepped. `run_once` does one round and answers the seconds to the next; tests call it directly."""

    name: str

    def run_once(self) -> float: ...
    def close(self) -> None: ...


class Runner:
    """Runs one service in a thread. A passing failure is retried with backoff; any other is logged and ends the process.

    `pause` may replace the plain sleep (a LISTEN wake-up, say): it takes the watcher and the seconds.
    """

    def __init__(
        self,
        service: Service,
        watcher: Watcher,
        died: Callable[[str], None],
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """`died` and `failed` are told the service's name: at its end, and at each round that did not come through."""
        self.service = service
        self._failed = failed or (lambda _: None)
        self._watcher = watcher
        self._died = died
        self._log = structlog.get_logger("tenure.service")
        self.thread = threading.Thread(target=self._run, name=f"tenure-{service.name}", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            self._failed(self.service.name)
            self._log.error("service_died", service=self.service.name, error=type(error).__name__, exc_info=error)
            self._died(self.service.name)
        else:
            self.service.close()

    def _loop(self) -> None:
        backoff = Backoff(initial=0.2, ceiling=5.0, jitter=True)
        pause: Callable[[Watcher, float], bool] = getattr(self.service, "pause", _sleep)
        while self._watcher.is_running():
            try:
                seconds = self.service.run_once()
            except (DBAPIError, psycopg2.Error, Unavailable, OSError) as error:
                if isinstance(error, DBAPIError | psycopg2.Error) and not passing(error):
                    raise
                self._failed(self.service.name)
                self._log.warning(
                    "service_waits", service=self.service.name, error=type(error).__name__, attempt=backoff.attempt()
                )
                if not backoff.wait(self._watcher):
                    return
                backoff.failed()
                continue
            backoff.succeeded()
            pause(self._watcher, seconds)


def _sleep(watcher: Watcher, seconds: float) -> bool:
    return watcher.sleep(seconds)


def passing(error: DBAPIError | psycopg2.Error) -> bool:
    """Lost connections, lock timeouts, serialization failures pass; a wrong statement does not."""
    invalidated = isinstance(error, DBAPIError) and error.connection_invalidated
    code = getattr(error.orig if isinstance(error, DBAPIError) else error, "pgcode", None)
    return invalidated or code is None or code[:2] in ("08", "40", "53", "55", "57")


def join(runners: Sequence[Runner], seconds: float) -> list[str]:
    """Join all threads, together within `seconds`; the names of those that did not end."""
    import time

    end = time.monotonic() + seconds
    for runner in runners:
        runner.thread.join(max(0.0, end - time.monotonic()))
    return [runner.service.name for runner in runners if runner.thread.is_alive()]
