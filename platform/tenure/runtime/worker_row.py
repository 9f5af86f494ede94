"""A process's own row in `workers`: written at most every 5 s. A refused write disturbs nothing: the next one comes."""

from __future__ import annotations

import time

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from tenure.store.workers import Boot, register, seen

PACE = 5.0  # s between writes; overdue after 15


class WorkerRow:
    """For one thread. The connection must be in autocommit: what is refused here must not take more with it."""

    def __init__(self, boot: Boot) -> None:
        self._boot = boot
        self._write_at = 0.0
        self._log = structlog.get_logger("tenure.presence")

    def write(self, connection: Connection, work: str | None) -> None:
        """Say that the process lives and what it does, if that is due. Raises only when the connection is lost."""
        if time.monotonic() < self._write_at:
            return
        self._write_at = time.monotonic() + PACE
        try:
            if not seen(connection, self._boot.boot_id, work):
                register(connection, self._boot)
                seen(connection, self._boot.boot_id, work)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            self._log.warning("row_not_written", error=type(error).__name__)
