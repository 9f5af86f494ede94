"""A LISTEN connection that is allowed to fail: dedicated, unpooled, made again with growing delay, always only a hint."""

from __future__ import annotations

import time

import psycopg2
import psycopg2.extensions
import structlog

from tenure.runtime.backoff import Backoff
from tenure.runtime.shutdown import HasFileno, Watcher
from tenure.store.connect import session_arguments
from tenure.store.hot import driver_dsn


class Listener:
    """Waits for a NOTIFY on one channel, a stop, or the time; whichever comes first."""

    def __init__(self, url: str, channel: str) -> None:
        self._url = url
        self._channel = channel
        self._connection: psycopg2.extensions.connection | None = None
        self._backoff = Backoff(initial=1.0, ceiling=60.0)
        self._not_before = 0.0
        self._log = structlog.get_logger("tenure.listener")

    def wait(self, watcher: Watcher, seconds: float, *, also: HasFileno | None = None) -> bool:
        """True unless there was a stop. `also`: something else whose readability ends the wait."""
        if seconds <= 0:
            return watcher.is_running()
        connection = self._connected()
        sources: list[HasFileno] = [source for source in (connection, also) if source is not None]
        if not sources:
            return watcher.sleep(seconds)
        if connection in watcher.wait_readable(sources, seconds) and connection is not None:
            try:
                connection.poll()
                connection.notifies.clear()
            except psycopg2.Error as error:
                self._lost(error)
        return watcher.is_running()

    def _connected(self) -> psycopg2.extensions.connection | None:
        if self._connection is None and time.monotonic() >= self._not_before:
            try:
                connection = psycopg2.connect(**{**session_arguments("tenure listener"), **driver_dsn(self._url)})
                connection.autocommit = True
                with connection.cursor() as cursor:
                    cursor.execute(f"listen {self._channel}")
            except psycopg2.Error as error:
                self._lost(error)
            else:
                self._connection = connection
                self._backoff.succeeded()
        return self._connection

    def _lost(self, error: psycopg2.Error) -> None:
        self._log.warning(
            "listen_lost", channel=self._channel, error=type(error).__name__, retry_in=self._backoff.delay()
        )
        self._not_before = time.monotonic() + self._backoff.delay()
        self._backoff.failed()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """UNLISTEN where the session is open, and close it."""
        if self._connection is None:
            return
        try:
            with self._connection.cursor() as cursor:
                cursor.execute("unlisten *")
        except psycopg2.Error as error:
            self._log.info("unlisten_skipped", error=type(error).__name__)
        self._connection.close()
        self._connection = None
