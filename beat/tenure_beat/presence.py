"""Beat's own row in `workers`: who is there and when it was last seen. At most one write per round."""

from __future__ import annotations

import structlog
from sqlalchemy.exc import DBAPIError

from tenure.settings import Settings
from tenure.store.connect import engine_for
from tenure.store.workers import Boot, ended, register, seen

PACE = 5.0  # s; overdue after 15


class Presence:
    """A refused write disturbs nothing: the next round writes again."""

    name = "presence"

    def __init__(self, settings: Settings, boot: Boot, *, options: str = "") -> None:
        self._boot = boot
        self._engine = engine_for(settings.session_url, application=f"tenure {boot.role}", pooled=True, options=options)
        self._log = structlog.get_logger("tenure.presence")

    def run_once(self) -> float:
        with self._engine.begin() as connection:
            if not seen(connection, self._boot.boot_id):
                register(connection, self._boot)
        return PACE

    def close(self) -> None:
        """Say that this boot has ended, if the database can hear it."""
        try:
            with self._engine.begin() as connection:
                ended(connection, self._boot.boot_id)
        except DBAPIError as error:
            self._log.info("end_not_written", error=type(error).__name__)
        self._engine.dispose()
