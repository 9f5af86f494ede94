"""The health file: UTC time and a loop counter, for probes that must not need the database."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

STALE_SECONDS = {"worker": 60.0, "beat": 120.0}


class Health:
    """Written by one thread of one process; a reader sees an old file or a new one, never half."""

    def __init__(self, home: Path, role: str) -> None:
        self._path = home / f"health-{role}"
        self._role = role
        self._counter = 0
        self._at = datetime.now(UTC)
        self._beaten = time.monotonic()

    def beat(self) -> None:
        """Say that the loop goes round. A full disk or a missing folder must not stop the work."""
        self._counter += 1
        self._at, self._beaten = datetime.now(UTC), time.monotonic()
        body = json.dumps({"at": self._at.isoformat(), "counter": self._counter, "pid": os.getpid()})
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_text(body)
            part.replace(self._path)
        except OSError:
            return  # the probe sees a stale file, which is the truth: nobody can tell how we are

    def report(self) -> dict[str, Any]:
        """role, at, counter, age_seconds, fresh: what the file says, for a caller in the same process."""
        age = time.monotonic() - self._beaten
        fresh = age <= STALE_SECONDS[self._role]
        at = self._at.isoformat()
        return {"role": self._role, "fresh": fresh, "at": at, "counter": self._counter, "age_seconds": round(age, 3)}
