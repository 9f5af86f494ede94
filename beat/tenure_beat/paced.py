"""A service at the pace of its built-in schedule or at its own, and the answer to whether its loop still goes round."""

from __future__ import annotations

import time

from tenure.runtime.service import Service

PATIENCE = 60.0  # s a round may take, waits for the database included, before its loop counts as hung


class Paced:
    """Steps `service` every `seconds`, whatever pace it asks for itself; None: at that."""

    def __init__(self, service: Service, seconds: float | None = None) -> None:
        self.name = service.name
        self._service = service
        self._seconds = seconds
        self._began = time.monotonic()

    def run_once(self) -> float:
        self._began = time.monotonic()
        asked = self._service.run_once()
        return asked if self._seconds is None else self._seconds

    def goes_round(self) -> bool:
        """False when a round has not come back in time. A round that failed and is tried again does go round."""
        return time.monotonic() - self._began < (self._seconds or 0.0) + PATIENCE

    def close(self) -> None:
        self._service.close()
