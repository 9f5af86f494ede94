"""The engine of a client in each process it lives in: made at first use, never shared over a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from sqlalchemy import Engine

from tenure.store.connect import engine_for


class Engines:
    """`engine` answers this process's own, pooled. `url` is asked for when one is made."""

    def __init__(self, url: Callable[[], str], *, application: str) -> None:
        self._url = url
        self._application = application
        self._lock = threading.Lock()
        self._made: tuple[int, Engine] | None = None

    def engine(self) -> Engine:
        with self._lock:
            if self._made is not None and self._made[0] != os.getpid():
                # Inherited: closing its sockets here would end the parent's sessions.
                self._made[1].dispose(close=False)
                self._made = None
            if self._made is None:
                self._made = (os.getpid(), engine_for(self._url(), application=self._application, pooled=True))
            return self._made[1]

    def close(self) -> None:
        """Close this process's sessions; the next use opens new ones."""
        with self._lock:
            if self._made is not None:
                self._made[1].dispose(close=self._made[0] == os.getpid())
                self._made = None
