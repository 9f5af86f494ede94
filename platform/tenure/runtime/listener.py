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

    def __init__(self, url: str, channel: str, *, payload: str | None = None, quiet: bool = False) -> None:
        """`payload`: only what says just this counts. `quiet`: a lost connection is no news, for who only looks on."""
        self._url = url
        self._channel = channel
        self._payload = payload
        self._quiet = quiet
        self._connection: psycopg2.extensions.connection | None = None
        self._backoff = Backoff(initial=1.0, ceiling=60.0)
        self._not_before = 0.0
        self._log = structlog.get_logger("tenure.listener")

    def wait(self, watcher: Watcher, seconds: float, *, also: HasFileno | None = None) -> bool:
        """True unless there was a stop. `also`: something else whose readability ends the wait."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            connection = self._connected()
            sources: list[HasFileno] = [source for source in (connection, also) if source is not None]
            if not sources:
                return watcher.sleep(left)
            ready = watcher.wait_readable(sources, left)
            if connection is None or connection not in ready or self._heard(connection) or len(ready) > 1:
                break
        return watcher.is_running()

    @property
    def listening(self) -> bool:
        """Whether a NOTIFY would be heard now."""
        return self._connection is not None

    def _heard(self, connection: psycopg2.extensions.connection) -> bool:
        """Whether what came is meant for us; also when the connection is lost: what was said meanwhile was not heard."""
        try:
            connection.poll()
        except psycopg2.Error as error:
            self._lost(error)
            return True
        said = {notice.payload for notice in connection.notifies}
        connection.notifies.clear()
        return bool(said) and (self._payload is None or self._payload in said)

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
        if not self._quiet:
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
            if not self._quiet:
                self._log.info("unlisten_skipped", error=type(error).__name__)
        self._connection.close()
        self._connection = None
