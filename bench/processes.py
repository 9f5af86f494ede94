"""Processes of the bench: started in the root of the repository with their output in a file, always stopped again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
STOP_SECONDS = 20.0


class BenchError(Exception):
    """A run that measured nothing: the message is for the user."""


@contextmanager
def process(
    name: str, command: Sequence[str], *, logs: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `python <command>` beside the block; SIGTERM at its end, SIGKILL to its group when it does not stop."""
    root = Path(__file__).resolve().parents[1]
    with open(logs / f"{name}.log", "ab") as log:
        running = subprocess.Popen(
            [sys.executable, *command],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), **environment},  # a console script does not see its directory
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield running
    except BenchError as error:
        raise BenchError(f"{error}; the last of {name}'s output: {_tail(logs / f'{name}.log')}") from None
    finally:
        _stop(running)


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return " | ".join(line[:200] for line in lines[-3:]) or "nothing"


def _stop(running: subprocess.Popen[bytes]) -> None:
    running.terminate()
    try:
        running.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def until(condition: Callable[[], T], *, seconds: float, pace: float = 0.02, what: str = "the bench") -> T:
    """The first true result. BenchError when there is none within `seconds`."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() >= end:
            raise BenchError(f"{what}: not done within {seconds:g} s")
        time.sleep(pace)
    return result
