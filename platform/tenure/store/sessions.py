"""The sessions of a service: looks that cost one statement each, and transactions where there is something to write.

An idle process looks several times a second; BEGIN, COMMIT and a ping around each look would cost four times as much.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import Connection, create_engine

from tenure.store.connect import dumps, session_arguments


class Sessions:
    """Two small pools. Looks go without a ping: a lost connection is found by the statement, and the service's loop
    tries again. Switching one connection between the two ways would cost statements, and fail unwrapped when it is lost.
    """

    def __init__(self, url: str, *, application: str, options: str = "") -> None:
        arguments = session_arguments(application, options)
        self._looks = create_engine(
            url,
            connect_args=arguments,
            json_serializer=dumps,
            isolation_level="AUTOCOMMIT",
            pool_size=1,
            max_overflow=3,
        )
        self._transactions = create_engine(
            url, connect_args=arguments, json_serializer=dumps, pool_size=1, max_overflow=3, pool_pre_ping=True
        )

    def look(self) -> Connection:
        """A connection on which each statement commits by itself; close it, or use it as a context manager."""
        return self._looks.connect()

    def transaction(self) -> AbstractContextManager[Connection]:
        """A connection in a transaction, committed at the end of the block and rolled back by an exception."""
        return self._transactions.begin()

    def dispose(self) -> None:
        """Close all sessions; the next use opens new ones."""
        self._looks.dispose()
        self._transactions.dispose()
