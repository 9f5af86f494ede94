"""The process aside: asked only where the worst case could take longer than a judgement may, and allowed to die of it."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Final

import jsonschema_rs

from tenure_records.errors import CannotJudge, Uninspectable

from . import alone
from .bounds import ASIDE_MEMORY_BYTES, ASIDE_SECONDS, FINDINGS, NAMING_SECONDS
from .compiling import Compiled
from .patterns import SIZES

Places = list[tuple[list[str | int], str]]

# The library is found where this process found it, wherever that is; nothing else of the surroundings is taken over.
_START: Final = "import runpy, sys; sys.path.append(sys.argv[2]); runpy.run_path(sys.argv[3], run_name='__main__')"
_LIBRARY: Final = str(Path(jsonschema_rs.__file__).parent.parent)


class Aside:
    """One process at most, started when it is first needed, again after it died, and anew in a forked child.

    Ends with this process: its pipe closes. Shared by threads, one question at a time. A question raises CannotJudge when
    the process cannot be started: that says nothing of the document.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._inherited: subprocess.Popen[bytes] | None = None

    def valid(self, schema: Compiled, text: str) -> bool:
        """Whether the document fits. Raises Uninspectable."""
        return self._ask(schema, text, 0)[0]

    def judge(self, schema: Compiled, text: str) -> tuple[bool, Places]:
        """The verdict and the places: fewer than there are, or none, if naming them takes too long. Raises Uninspectable."""
        return self._ask(schema, text, FINDINGS)

    def close(self) -> None:
        """End the process; the next question starts another."""
        if self._process is not None:
            self._end(self._process)

    def forked(self) -> None:
        """In a forked child: the process, its pipes and whoever holds a lock are the parent's."""
        self._lock = threading.Lock()
        self._inherited, self._process = self._process, None
        if self._inherited is not None:
            # Not closed as they are: what the parent has not sent yet would be sent twice.
            self._inherited.returncode = 0
            nothing = os.open(os.devnull, os.O_RDWR)
            for pipe in (self._inherited.stdin, self._inherited.stdout):
                if pipe is not None and not pipe.closed:
                    os.dup2(nothing, pipe.fileno(), inheritable=False)
            os.close(nothing)

    def _ask(self, schema: Compiled, text: str, places: int) -> tuple[bool, Places]:
        with self._lock:
            for _ in range(2):
                process = self._running()
                done = False
                try:
                    valid, named, done = _exchange(process, schema, text, places)
                finally:
                    # Whatever ended the question, the next must not read the rest of its answer.
                    if not done:
                        self._end(process)
                if valid is not None:
                    return valid, named
                # Its own limits end it otherwise. Who was killed from outside may have done nothing wrong: asked again.
                if process.returncode != -signal.SIGKILL:
                    break
        raise Uninspectable("judging the document takes too long or too much memory")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = _started()
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        _close(process)
        process.wait()
        if self._process is process:
            self._process = None


def _started() -> subprocess.Popen[bytes]:
    """A process that has said it is ready. Raises CannotJudge."""
    command = [sys.executable, "-I", "-c", _START, str(ASIDE_MEMORY_BYTES), _LIBRARY, alone.__file__]
    quiet = subprocess.DEVNULL
    try:
        # Nothing of the environment: it may hold credentials, and none of it is needed.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, env={}, close_fds=True
        )
    except OSError as error:
        raise CannotJudge(f"the process that judges costly documents cannot be started: {error.strerror}") from None
    assert process.stdout is not None
    if not _line(process.stdout):
        process.kill()
        _close(process)
        process.wait()
        raise CannotJudge(f"the process that judges costly documents ended at its start ({process.returncode})")
    return process


def _exchange(
    process: subprocess.Popen[bytes], schema: Compiled, text: str, places: int
) -> tuple[bool | None, Places, bool]:
    """(the verdict or None, the places, whether the process lives)."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(_request(schema, text, places))
        process.stdin.flush()
    except BrokenPipeError:
        return None, [], False
    answer = _line(process.stdout)
    if not answer:
        return None, [], False
    named: Places = []
    valid = bool(json.loads(answer))
    for _ in range(2 if places and not valid else 0):
        line = _line(process.stdout)
        if not line:
            return valid, named, False
        named = [tuple(each) for each in json.loads(line)]
    return valid, named, True


def _line(answers: IO[bytes]) -> bytes:
    """A whole line; empty when the process ended before its end."""
    line = answers.readline()
    return line if line.endswith(b"\n") else b""


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                pass


def _request(schema: Compiled, text: str, places: int) -> bytes:
    body, document = schema.text.encode(), text.encode()
    order = {
        "schema": len(body),
        "document": len(document),
        "places": places,
        "seconds": ASIDE_SECONDS,
        "naming_seconds": NAMING_SECONDS,
        "validator": schema.validator_class.__name__,
        "pattern": SIZES,
    }
    return json.dumps(order).encode() + b"\n" + body + document


ASIDE: Final = Aside()
atexit.register(ASIDE.close)
os.register_at_fork(after_in_child=ASIDE.forked)
