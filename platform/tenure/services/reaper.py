"""The reaper: expired leases, due and late tasks, cancels nobody is left to acknowledge. Plain SQL, any number of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from sqlalchemy import Connection

from tenure.settings import Settings
from tenure.store.sessions import Sessions
from tenure.store.transitions import due, recover


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
        self._log = structlog.get_logger("tenure.reaper")

    def run_once(self) -> float:
        with self._sessions.look() as connection:
            found = due.anything(connection)
        if found.expired:
            self._recover()
        if found.stops:
            self._drain(due.cancel_asked)
            self._drain(due.forget_stops)
        late = self._drain(due.expire) if found.late else []
        promoted = self._drain(due.promote) if found.scheduled else []
        if late or promoted:
            self._log.info("swept", late=len(late), promoted=len(promoted))
        return self._settings.reap_seconds

    def _recover(self) -> None:
        bound = self._settings.crash_bound
        for task_id, state, outcome in self._drain(lambda c: recover.recover_expired(c, crash_bound=bound)):
            self._recovered(outcome or state)
            self._log.warning("recovered", task_id=str(task_id), state=state, outcome=outcome)

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
