"""Moves executions on after a commit that ended one of their tasks. Whatever fails here is the safety net's to mend: the
task's outcome is committed, and an error here is nobody's but the execution's."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tenure.store import executions
from tenure.store.advance import advance
from tenure.store.sessions import Sessions

# Whoever holds an execution for long is a caller with an open transaction: the net comes by again.
OPTIONS = "-c lock_timeout=1000 -c idle_in_transaction_session_timeout=5000"


class Advancer:
    """Its sessions are opened at its first use: a process whose tasks have no execution has none."""

    def __init__(self, url: str, *, application: str, options: str = OPTIONS) -> None:
        self._sessions = Sessions(url, application=application, options=options)
        self._log = structlog.get_logger("tenure.advance")

    def advance(self, execution_ids: Iterable[UUID]) -> int:
        """Move these on, each in a transaction of its own; how many moved. Raises nothing."""
        return sum(self._one(execution_id) for execution_id in execution_ids)

    def _one(self, execution_id: UUID) -> bool:
        try:
            with self._sessions.transaction() as connection:
                done = advance(connection, execution_id)
            if done is None:
                return False
            if done.freed is not None:
                self._log.info("execution_ended", execution_id=str(execution_id), state=done.state)
                with self._sessions.look() as connection:
                    follower = executions.next_waiting(connection, done.freed)
                if follower is not None:
                    self._one(follower)
            return done.freed is not None or done.queued > 0
        except SQLAlchemyError as error:
            self._log.warning("advance_failed", execution_id=str(execution_id), error=type(error).__name__)
            return False

    def pending(self, *, older: float) -> int:
        """Move on every execution of which a member ended at least `older` seconds ago; how many moved.

        Raises DBAPIError when the database is away.
        """
        with self._sessions.look() as connection:
            found = executions.pending(connection, older=older)
        return self.advance(found)

    def stuck(self, *, older: float) -> int:
        """Move on every execution that stands still: the safety net. Raises DBAPIError when the database is away."""
        with self._sessions.look() as connection:
            found = executions.stuck(connection, older=older)
        moved = self.advance(found)
        if moved:
            self._log.warning("net_caught", executions=moved)
        return moved

    def close(self) -> None:
        self._sessions.dispose()
