"""The result backend `tenure+rows`: reads the task's row, writes nothing. For clients; workers have none.

`tenure+rows://` reads TENURE_DATABASE_URL; `tenure+rows://user:password@host/name` that database.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from celery import states
from celery.backends.base import BaseBackend
from celery.exceptions import TaskRevokedError, TimeoutError

from tenure import client, settings
from tenure.model.errors import NoSuchTask
from tenure.model.states import ACTIVE, PENDING, State
from tenure.settings import PREFIX
from tenure.store.connect import reachable
from tenure.waiting import LONGEST_NAP, naps
from tenure_celery.engines import Engines
from tenure_celery.errors import TaskFailed, UnsupportedByTenure
from tenure_celery.ids import row_id

STATES: dict[str, str] = {
    **dict.fromkeys(PENDING, states.PENDING),
    **dict.fromkeys(ACTIVE, states.STARTED),
    State.SUCCEEDED: states.SUCCESS,
    State.PARTIALLY_SUCCEEDED: states.SUCCESS,
    State.FAILED: states.FAILURE,
    State.CANCELLED: states.REVOKED,
}
_READ_ONLY = "results are the rows of tasks: this backend writes none (for tasks that are no kinds use another backend)"


class RowsBackend(BaseBackend):
    """States: waiting, scheduled, queued → PENDING; validating, running → STARTED, with the counters as `info`;
    succeeded, partially_succeeded → SUCCESS with the result; failed → FAILURE, raising TaskFailed; cancelled → REVOKED.
    An unknown id is PENDING, as everywhere in Celery: a foreign message may not have arrived yet."""

    supports_autoexpire = True

    def __init__(self, app: Any, url: str | None = None, **options: Any) -> None:
        super().__init__(app, url=url, **options)
        place = (url or "").partition("://")[2]
        self._engines = Engines(lambda: PREFIX + place if place else _client_url(app), application="tenure results")

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        with reachable(self._engines.engine()) as connection:
            try:
                row = client.glance(connection.execution_options(isolation_level="AUTOCOMMIT"), row_id(task_id))
            except NoSuchTask:
                return {"task_id": task_id, "status": states.PENDING, "result": None}
        status = STATES[row["state"]]
        done = row["finished_at"]
        return {
            "task_id": task_id,
            "status": status,
            "result": _result(status, row),
            "traceback": None,
            "children": [],
            "date_done": done and done.isoformat(),
            "name": row["kind"],
            "queue": row["queue"],
            "retries": max(row["attempt"] - 1, 0),
        }

    def meta_from_decoded(self, meta: dict[str, Any]) -> dict[str, Any]:
        return meta  # an error is one already

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = LONGEST_NAP,
        no_ack: bool = True,
        on_interval: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Its meta once it has ended; celery's TimeoutError after `timeout` seconds. Looks every `interval` s at least."""
        del no_ack
        for _ in naps(timeout, longest=min(interval, LONGEST_NAP)):
            meta: dict[str, Any] = self.get_task_meta(task_id)
            if meta["status"] in states.READY_STATES:
                return meta
            if on_interval:
                on_interval()
        raise TimeoutError("The operation timed out.")

    def task_result_exists(self, task_id: str) -> bool:
        """Whether there is a row of this id."""
        return "name" in self._get_task_meta_for(task_id)

    def _forget(self, task_id: str) -> None:
        """Nothing: a row stays until retention takes it."""

    def _refuse(self, *_args: object, **_options: object) -> NoReturn:
        raise UnsupportedByTenure(_READ_ONLY)

    store_result = _store_result = save_group = apply_chord = ensure_chords_allowed = _refuse

    def restore_group(self, group_id: str, cache: bool = True) -> None:
        """None: no group is stored."""
        del group_id, cache


def _client_url(app: Any) -> str:
    own = getattr(app, "tenure", None)
    return (own or settings.load()).client_url


def _result(status: str, row: dict[str, Any]) -> Any:
    if status == states.SUCCESS:
        return row["result"]
    if status == states.STARTED:
        return {name: row[name] for name in ("total", "processed", "succeeded", "failed")}
    if status == states.REVOKED:
        return TaskRevokedError("cancelled")
    if status == states.FAILURE:
        said = f"{row['kind']}: {row['outcome']}: {row['error_message'] or row['error_code'] or 'no message'}"
        return TaskFailed(said, task_id=row["id"], outcome=row["outcome"], code=row["error_code"] or "")
    return None
