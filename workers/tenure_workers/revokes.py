"""Foreign `control.revoke` and `terminate` broadcasts: requests to stop rows. Celery's own would remember the ids for
hours and drop later attempts of these tasks, or kill a child that is in another task by now."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import Any

import structlog
from celery.worker.control import Panel

from tenure import client
from tenure.model.errors import NoSuchTask, TooLate
from tenure.model.records import Initiator
from tenure.runtime.shared import WakePipe
from tenure.runtime.shutdown import Watcher
from tenure.settings import Settings
from tenure.store.sessions import Sessions
from tenure_celery.ids import row_id

BY = Initiator("celery", "broadcast", "control.revoke")
_IDLE = 60.0  # s; the pipe wakes it
_COMMANDS = ("revoke", "terminate")


class Revokes:
    """A service: what the consumer's thread was told is asked of the database here, where waiting for it harms nobody."""

    name = "revokes"

    def __init__(self, settings: Settings) -> None:
        self._sessions = Sessions(settings.session_url, application="tenure revokes")
        self._asked: SimpleQueue[str] = SimpleQueue()
        self._wake = WakePipe()
        self._log = structlog.get_logger("tenure.revokes")

    def ask(self, celery_ids: list[str]) -> None:
        for celery_id in celery_ids:
            self._asked.put(celery_id)
        self._wake.ring()

    def run_once(self) -> float:
        self._wake.drain()
        while True:
            try:
                celery_id = self._asked.get_nowait()
            except Empty:
                return _IDLE
            try:
                self._cancel(celery_id)
            except BaseException:
                self._asked.put(celery_id)  # the next round asks again; twice is harmless
                raise

    def pause(self, watcher: Watcher, seconds: float) -> bool:
        watcher.wait_readable(self._wake, seconds)
        return watcher.is_running()

    def _cancel(self, celery_id: str) -> None:
        try:
            with self._sessions.transaction() as connection:
                state = client.cancel(connection, row_id(celery_id), initiator=BY)
        except (NoSuchTask, TooLate):
            return  # somebody else's task, or ended: Celery's revoke is silent about both
        self._log.info("revoke_asked", task_id=str(row_id(celery_id)), state=state)

    def close(self) -> None:
        self._sessions.dispose()


def install(revokes: Revokes) -> None:
    """Replace the panel's commands in this process."""

    def revoke(_state: Any, task_id: Any = None, **_options: Any) -> dict[str, str]:
        """Ask tasks to stop, by id or list of ids."""
        given = task_id if isinstance(task_id, list | tuple | set) else [task_id]
        celery_ids = [one for one in given if isinstance(one, str) and one]
        revokes.ask(celery_ids)
        return {"ok": f"asked {len(celery_ids)} to stop"}

    def by_stamps(_state: Any, **_options: Any) -> dict[str, str]:
        """Not supported."""
        return {"error": "revoke_by_stamped_headers is not supported by Tenure: revoke by id"}

    for name in _COMMANDS:
        Panel.data[name] = revoke
    Panel.data["revoke_by_stamped_headers"] = by_stamps
