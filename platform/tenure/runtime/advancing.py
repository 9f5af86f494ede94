"""Moves executions on after a commit that ended one of their tasks. Whatever fails here is the safety net's to mend: the
task's outcome is committed, and an error here is nobody's but the execution's."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import structlog

from tenure.store import standing
from tenure.store.advance import advance
from tenure.store.connect import engine_for

# Whoever holds an execution for long is a caller with an open transaction: the net comes by again.
OPTIONS = "-c lock_timeout=1000 -c idle_in_transaction_session_timeout=5000"


class Advancer:
    """One session at most, opened at its first use: a process whose tasks have no execution has none."""

    def __init__(self, url: str, *, application: str, options: str = OPTIONS) -> None:
        self._engine = engine_for(url, application=application, pooled=True, options=options)
        self._log = structlog.get_logger("tenure.advance")

    def advance(self, execution_ids: Iterable[UUID], *, wait: bool = True) -> int:
        """Move these on, each in a transaction of its own; how many moved. Raises nothing.

        With `wait` false those that somebody holds are left to the next time: many held ones must not add up.
        """
        return sum(self._one(execution_id, wait) for execution_id in execution_ids)

    def _one(self, execution_id: UUID, wait: bool) -> bool:
        try:
            with self._engine.begin() as connection:
                done = advance(connection, execution_id, wait=wait)
            if done is None or (done.freed is None and not done.queued):
                return False
            if done.freed is not None:
                self._log.info("execution_ended", execution_id=str(execution_id), state=done.state)
                self._follow(done.freed, wait)
        except Exception as error:
            # Whatever it is, a task has ended before and the next may be claimed already: neither may pay for it.
            self._log.warning("advance_failed", execution_id=str(execution_id), error=type(error).__name__)
            return False
        return True

    def _follow(self, schedule_id: UUID, wait: bool) -> None:
        """Start the execution that waited. A look of its own, after the commit: whoever let it wait did the same after
        his, so that one of the two sees the other."""
        with self._engine.begin() as connection:
            follower = standing.next_waiting(connection, schedule_id)
        if follower is not None:
            self._one(follower, wait)

    def pending(self, *, older: float) -> int:
        """Move on every execution of which a member ended at least `older` seconds ago; how many moved.

        Raises DBAPIError when the database is away.
        """
        with self._engine.begin() as connection:
            found = standing.pending(connection, older=older)
        return self.advance(found, wait=False)

    def stuck(self, *, older: float) -> int:
        """Move on every execution that stands still: the safety net. Raises DBAPIError when the database is away."""
        with self._engine.begin() as connection:
            found = standing.stuck(connection, older=older)
        moved = self.advance(found, wait=False)
        if moved:
            self._log.warning("net_caught", executions=moved)
        return moved

    def close(self) -> None:
        self._engine.dispose()
