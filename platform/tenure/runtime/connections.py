"""The SQL connections of the attempt in hand, so that a stop can cancel what they are blocked in.

Bodies run on these; claims and ends have a connection of their own that no cancel can hit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, create_engine

from tenure.store.connect import dumps, session_arguments


class Connections:
    """Made once per process, used by one body at a time; `cancel` is called by the control thread."""

    def __init__(self, url: str, *, lease_seconds: float, application: str) -> None:
        # A transaction idle for a whole lease is a frozen body: the server ends it, nobody waits for its locks.
        options = f"-c idle_in_transaction_session_timeout={int(lease_seconds * 1000)}"
        self._engine: Engine = create_engine(
            url,
            connect_args=session_arguments(application, options),
            json_serializer=dumps,
            pool_size=1,
            max_overflow=15,
            pool_pre_ping=True,
        )
        self._lock = threading.Lock()
        self._open: list[Connection] = []

    def open(self) -> Connection:
        """A connection registered until `close_all`."""
        connection = self._engine.connect()
        with self._lock:
            self._open.append(connection)
        return connection

    @contextmanager
    def registered(self) -> Iterator[Connection]:
        connection = self.open()
        try:
            yield connection
        finally:
            with self._lock:
                self._open.remove(connection)
            connection.close()

    def cancel(self) -> int:
        """Cancel whatever statement the registered connections are in; how many were asked. Harmless on idle ones."""
        with self._lock:
            asked = 0
            for connection in self._open:
                driver = (
                    None if connection.invalidated or connection.closed else connection.connection.driver_connection
                )
                if driver is not None:
                    driver.cancel()
                    asked += 1
            return asked

    def close_all(self) -> None:
        """Close what the body left open; open transactions are rolled back."""
        with self._lock:
            left, self._open = self._open, []
        for connection in left:
            connection.close()

    def dispose(self) -> None:
        self.close_all()
        self._engine.dispose()
