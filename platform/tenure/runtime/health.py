"""The health file: UTC time and a loop counter, for probes that must not need the database."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

STALE_SECONDS = {"worker": 60.0, "beat": 120.0}


class Health:
    """Written by one thread of one process; a reader sees an old file or a new one, never half."""

    def __init__(self, home: Path, role: str) -> None:
        self._path = home / f"health-{role}"
        self._counter = 0

    def beat(self) -> None:
        """Say that the loop goes round. A full disk or a missing folder must not stop the work."""
        self._counter += 1
        body = json.dumps({"at": datetime.now(UTC).isoformat(), "counter": self._counter, "pid": os.getpid()})
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_text(body)
            part.replace(self._path)
        except OSError:
            return  # the probe sees a stale file, which is the truth: nobody can tell how we are
