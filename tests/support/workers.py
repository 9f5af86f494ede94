"""Real worker processes of a test: started as a deployment starts them, stopped, killed and frozen by their pid."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.support.scratch import scratch_directory
from tests.support.servers import children
from tests.support.until import until

ROOT = Path(__file__).parents[2]
KINDS = "tests.support.kinds"
START_S = 30.0
END_S = 40.0  # above the 30 s that a platform would grant


def worker_command(name: str, *, pool: str = "prefork", concurrency: int = 2, queues: str = "default") -> list[str]:
    """The command line of `tenure worker`."""
    return [
        *(sys.executable, "-m", "celery", "-A", "tenure_workers", "worker"),
        *("-O", "fair", "--without-mingle", "--without-gossip", "-P", pool, "-c", str(concurrency)),
        *("-n", f"{name}@test", "-Q", queues, "-l", "INFO"),
    ]


class Worker:
    """One worker process with a home and a log file of its own. `env` adds to the environment, or replaces parts of it.

    Started by making it; `wait_ready` returns when it consumes. Leaving the block kills what is left of it.
    """

    def __init__(
        self,
        database_url: str,
        broker_url: str,
        *,
        name: str = "one",
        pool: str = "prefork",
        concurrency: int = 2,
        queues: str = "default",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.home = scratch_directory()
        self.log = self.home / "worker.log"
        own = {
            "TENURE_DATABASE_URL": database_url,
            "TENURE_BROKER_URL": broker_url,
            "TENURE_HOME": str(self.home),
            "TENURE_KINDS": KINDS,
            "TENURE_NODE": name,
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                worker_command(name, pool=pool, concurrency=concurrency, queues=queues),
                cwd=ROOT,
                env={**inherited, **own, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    # -- what it says ----------------------------------------------------------------------------------------------

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """The JSON lines of its log; with `event`, those of that event."""
        whole = [line for line in self.text().splitlines(keepends=True) if line.endswith("\n")]
        parsed = [json.loads(line) for line in whole if line.startswith("{")]
        return [line for line in parsed if event is None or line["event"] == event]

    def wait_for(self, event: str, timeout: float = START_S) -> dict[str, Any]:
        """The first log line of that event; fails with the log's end when it does not come or the process ends."""

        def said() -> list[dict[str, Any]]:
            ended = self.process.poll() is not None
            found = self.lines(event)
            assert found or not ended, f"exited with {self.process.returncode}: {self.text()[-2000:]}"
            return found

        try:
            return until(said, timeout, pace=0.05)[0]
        except AssertionError as error:
            raise AssertionError(f"{event!r}: {error}\n{self.text()[-2000:]}") from None

    def wait_ready(self) -> Self:
        self.wait_for("ready")
        return self

    def pool(self) -> list[int]:
        """The pids of its pool's children."""
        return children(self.process.pid)

    # -- what is done to it ----------------------------------------------------------------------------------------

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def freeze(self) -> None:
        """SIGSTOP to all its processes, the main one first: it forks none meanwhile."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to the main process and its pool at once, as when the machine goes away."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # all of it has ended already
        self.process.wait(END_S)

    def exit_code(self, timeout: float = END_S) -> int:
        """Wait for its end; the log is shown when it does not come."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout:g} s: {self.text()[-2000:]}") from None

    def stop(self) -> tuple[int, float]:
        """SIGTERM; (exit code, seconds it took)."""
        began = time.monotonic()
        self.signal(signal.SIGTERM)
        return self.exit_code(), time.monotonic() - began

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
