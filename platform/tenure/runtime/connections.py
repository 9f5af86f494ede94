"""The SQL connections of the attempt in hand, so that a stop can cancel what they are blocked in.

Bodies run on these; claims and ends have a connection of their own that no cancel can hit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.exc import DBAPIError

from tenure.store.connect import dumps, session_arguments

_IDLE_IN_TRANSACTION = "25P03"


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
        event.listen(self._engine, "handle_error", self._failed)
        event.listen(self._engine, "commit", self._committing)
        self.fence: Callable[[Connection], None] | None = None
        self._lock = threading.Lock()
        self._open: list[Connection] = []
        self._lost = False

    @property
    def lost(self) -> bool:
        """Whether the database went away under one of the connections since the last `close_all`."""
        return self._lost

    def _failed(self, context: ExceptionContext) -> None:
        gone = context.is_disconnect or context.connection is None
        # A pooled connection found dead is replaced unseen; one that sat idle for a whole lease is the body's own fault.
        idle = getattr(context.original_exception, "pgcode", None) == _IDLE_IN_TRANSACTION
        if gone and not context.is_pre_ping and not idle:
            self._lost = True

    def _committing(self, connection: Connection) -> None:
        """Runs as the last statement before every COMMIT, whoever asked for it: a superseded holder's is refused."""
        if self.fence is not None:
            self.fence(connection)

    def owns(self, connection: Connection) -> bool:
        """Whether its commits are fenced here."""
        return connection.engine is self._engine

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
                ours = connection in self._open
                if ours:
                    self._open.remove(connection)
            if ours:  # else the body has ended before this block, and all were closed
                _close(connection)

    def cancel(self, wanted: Callable[[], bool]) -> int:
        """Cancel whatever statement the registered connections are in; how many were asked. Harmless on idle ones.

        `wanted` is asked under the lock, which closing takes too: what the next attempt opens is never hit.
        """
        with self._lock:
            asked = 0
            if not wanted():
                return asked
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
            self.fence = None
        for connection in left:
            _close(connection)
        self._lost = False

    def dispose(self) -> None:
        self.close_all()
        self._engine.dispose()


def _close(connection: Connection) -> None:
    try:
        connection.close()
    except DBAPIError:
        # The roll-back failed: the server has done it, or will as soon as it misses us.
        connection.invalidate()
        connection.close()
