"""Other ways to be told to leave: twice, to the whole group, SIGQUIT, SIGINT, and while still starting."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import stopping, workers
from tests.support.databases import Database
from tests.support.kinds.ledger import ledger
from tests.support.submitted import FULL, Tasks
from tests.support.until import until
from tests.support.workers import Worker, worker_command

COOPERATIVE_EXIT_S = 6.0
START_EXIT_S = 10.0


def twice(worker: Worker) -> None:
    worker.signal(signal.SIGTERM)
    time.sleep(0.3)
    worker.signal(signal.SIGTERM)


def to_the_group(worker: Worker) -> None:
    os.killpg(worker.process.pid, signal.SIGTERM)


def quit_(worker: Worker) -> None:
    worker.signal(signal.SIGQUIT)


def one_more_quit(worker: Worker) -> None:
    worker.signal(signal.SIGTERM)
    time.sleep(0.3)
    worker.signal(signal.SIGQUIT)


def interrupt(worker: Worker) -> None:
    worker.signal(signal.SIGINT)


@pytest.mark.parametrize(
    "how, code", [(twice, 0), (to_the_group, 0)] + ([(quit_, 0), (interrupt, 1), (one_more_quit, 0)] if FULL else [])
)
def test_with_two_tasks_running_each_signal_settles_them_and_gives_its_exit_code(
    database: Database, broker_url: str, how: Callable[[Worker], None], code: int
) -> None:
    tasks = Tasks(database.engine)
    ids = tasks.submit(ledger, 4, steps=10_000, seconds=0.02)
    with Worker(database.url, broker_url) as worker:
        worker.wait_ready()
        stopping.in_body(tasks, ids, 2)
        how(worker)
        assert worker.exit_code(COOPERATIVE_EXIT_S) == code, worker.text()[-3000:]
        stopping.assert_nothing_left(tasks, worker)
        assert len(worker.lines("stopped")) == 1
    assert tasks.states(ids) == {"failed service_unavailable": 2, "queued": 2}


@pytest.mark.parametrize("moment", [0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0] if FULL else [0.3, 1.0])
def test_a_signal_during_the_start_leaves_nothing(database: Database, broker_url: str, moment: float) -> None:
    with Worker(database.url, broker_url) as worker:
        tasks = Tasks(database.engine)
        time.sleep(moment)
        worker.signal(signal.SIGTERM)
        code = worker.exit_code(START_EXIT_S)
        # While Celery itself is imported the interpreter's own default holds: nothing of ours has been opened by then.
        assert code == 0 or (code == -signal.SIGTERM and worker.text() == ""), f"{code}: {worker.text()[-3000:]}"
        print(f"\nFIGURE SIGTERM {moment} s after the spawn: exit {code}, {len(worker.lines('ready'))} ready")
        stopping.assert_nothing_left(tasks, worker)
    assert tasks.one("select count(*) from workers where ended_at is null") == 0


def _hears(worker: Worker) -> bool:
    """Whether the process has a handler for SIGTERM by now."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 0), (signal.SIGQUIT, 0), (signal.SIGINT, 1)])
def test_started_by_our_own_module_a_worker_has_its_exit_codes_while_it_imports(
    database: Database, broker_url: str, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def ours(*args: Any, **options: Any) -> list[str]:
        theirs = worker_command(*args, **options)
        return [sys.executable, "-m", "tenure_workers", *theirs[3:]]

    monkeypatch.setattr(workers, "worker_command", ours)
    began = time.monotonic()
    with Worker(database.url, broker_url) as worker:
        until(lambda: _hears(worker), 20, pace=0.005)
        print(f"\nFIGURE signals heard {1000 * (time.monotonic() - began):.0f} ms after the spawn")
        worker.signal(number)
        assert worker.exit_code(START_EXIT_S) == code
        assert worker.text() == ""
