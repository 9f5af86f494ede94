"""Foreign messages in a child: each becomes a row before anything is claimed. While the database is away they wait."""

from __future__ import annotations

from uuid import UUID

import structlog
from celery.exceptions import Reject
from sqlalchemy.exc import DBAPIError

from tenure.adoption import Adopted, adopt
from tenure.registry import Registry
from tenure.runtime.backoff import Backoff
from tenure.runtime.shutdown import Watcher
from tenure.settings import Settings
from tenure.store.connect import disconnected
from tenure_celery.engines import Engines
from tenure_celery.foreign import Foreign, request_of


class Adopter:
    """One per worker; each process it is used in opens its own sessions, at the first foreign message."""

    def __init__(self, settings: Settings, registry: Registry, watcher: Watcher, *, larger_first: bool) -> None:
        self._registry = registry
        self._watcher = watcher
        self._larger_first = larger_first
        self._engines = Engines(lambda: settings.session_url, application="tenure adopt")
        self._log = structlog.get_logger("tenure.adopter")

    def adopt(self, name: str, message: Foreign) -> UUID | None:
        """The id of the row to claim, now or delivered again; None: rejected, or not to be stored at all.

        Raises celery's Reject, which gives the message back to the broker, when a stop comes while the database is away.
        """
        spec = self._registry.spec(name)
        request = request_of(spec, message, larger_first=self._larger_first)
        backoff = Backoff(initial=0.1, ceiling=2.0)
        while True:
            try:
                with self._engines.engine().begin() as connection:
                    became = adopt(connection, spec, request)
                break
            except DBAPIError as error:
                said = {"task_id": str(request.task_id), "kind": name, "error": type(error).__name__}
                if not disconnected(error):
                    self._log.error("adoption_failed", **said)
                    return None
                self._log.warning("database_away", **said, attempt=backoff.attempt())
            if not backoff.wait(self._watcher):
                raise Reject("the worker stops", requeue=True)
            backoff.failed()
        if became is Adopted.REJECTED:
            self._log.info("message_rejected", task_id=str(request.task_id), kind=name)
            return None
        return request.task_id
