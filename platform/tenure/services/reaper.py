"""The reaper: expired leases, due and late tasks, cancels nobody is left to acknowledge, executions that nobody has moved
on yet. Plain SQL, any number of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from tenure.runtime.advancing import Advancer
from tenure.settings import Settings
from tenure.store.connect import disconnected
from tenure.store.sessions import Sessions
from tenure.store.transitions import activities, due, recover

BEAT_PACE = 5.0  # s in a beat: workers look every second, this is for when there are none
LEFT_TO_OTHERS = 0.5  # s a process has to move its own executions on


class Reaper:
    """One round settles everything that time has decided, in batches, each a statement that commits by itself."""

    name = "reaper"

    def __init__(
        self,
        settings: Settings,
        *,
        options: str = "-c lock_timeout=1000",
        recovered: Callable[[str], None] | None = None,
    ) -> None:
        """`recovered` is told the fate of each task of a lost worker: its outcome, or the state it is in."""
        self._settings = settings
        self._recovered = recovered or (lambda _: None)
        self._sessions = Sessions(settings.session_url, application="tenure reaper", options=options)
        self._advancer = Advancer(settings.session_url, application="tenure reaper", options=options)
        self._log = structlog.get_logger("tenure.reaper")

    def run_once(self) -> float:
        with self._sessions.look() as connection:
            found = due.anything(connection, older=LEFT_TO_OTHERS)
        ended = bool(found.expired and self._recover())
        if found.stops:
            ended = bool(self._drain(due.cancel_asked)) or ended
            self._drain(due.forget_stops)
        late = self._drain(due.expire) if found.late else []
        promoted = self._drain(due.promote) if found.scheduled else []
        if found.activities:
            self._end_activities()
        if late or promoted:
            self._log.info("swept", late=len(late), promoted=len(promoted))
        # What ended here is moved on at once; what ended elsewhere is its own process's to move on first.
        if ended or late or found.executions:
            self._advancer.pending(older=0.0 if ended or late else LEFT_TO_OTHERS)
        return self._settings.reap_seconds

    def _end_activities(self) -> None:
        for activity_id, failed in self._drain(activities.expire):
            if failed:
                self._log.warning("activity_left_open", activity_id=str(activity_id))

    def _recover(self) -> int:
        bound = self._settings.crash_bound
        try:
            settled = self._drain(lambda c: recover.recover_expired(c, crash_bound=bound))
        except DBAPIError as error:
            if disconnected(error):
                raise
            # History refuses its lines (a month without a partition, say): no task may be left active for that.
            self._log.error("recovery_without_history", error=type(error.orig).__name__)
            settled = self._drain(lambda c: recover.recover_expired_directly(c, crash_bound=bound))
        for task_id, state, outcome in settled:
            self._recovered(outcome or state)
            self._log.warning("recovered", task_id=str(task_id), state=state, outcome=outcome)
        return len(settled)

    def _drain(self, step: Callable[[Connection], list[Any]]) -> list[Any]:
        """Loop a batch until it finds nothing: a backlog must not wait for the next round."""
        done: list[Any] = []
        while True:
            with self._sessions.transaction() as connection:
                batch = step(connection)
            done += batch
            if not batch:
                return done

    def close(self) -> None:
        self._sessions.dispose()
        self._advancer.close()
