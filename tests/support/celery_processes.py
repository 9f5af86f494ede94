"""Real Celery processes: worker, beat, Flower. Started and ended by pid, their output kept for when a test fails."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.until import until


class CeleryProcess:
    """One process on these servers. Standard output and error go to one file in `home`."""

    def __init__(
        self, arguments: Sequence[str], *, home: Path, database_url: str, broker_url: str, name: str, **environment: str
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.output = home / f"{name}.log"
        variables = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("TENURE_", "FLOWER_"))},
            "TENURE_DATABASE_URL": database_url,
            "TENURE_BROKER_URL": broker_url,
            "TENURE_HOME": str(home),
            **environment,
        }
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments], stdout=output, stderr=subprocess.STDOUT, env=variables, cwd=home
            )

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def wait_for(self, words: str, timeout: float = 30.0) -> None:
        """Until these words stand in the output."""
        until(lambda: words in self.text() or self._ended(), timeout)
        assert words in self.text(), self.text()

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self, timeout: float = 30.0) -> int:
        """The exit code."""
        return self.process.wait(timeout)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended():
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)
