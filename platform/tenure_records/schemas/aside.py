"""The process aside: asked only where the worst case could take longer than a judgement may, and allowed to die of it."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from typing import Final

from tenure_records.errors import Uninspectable

from . import alone
from .bounds import ASIDE_MEMORY_BYTES, ASIDE_SECONDS, FINDINGS, NAMING_SECONDS
from .compiling import Compiled
from .patterns import SIZES

Places = list[tuple[list[str | int], str]]


class Aside:
    """One process at most, started when it is first needed, again after it died, and anew in a forked child.

    Ends with this process: its pipe closes. Shared by threads, one question at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def valid(self, schema: Compiled, text: str) -> bool:
        """Whether the document fits. Raises Uninspectable."""
        return self._ask(schema, text, 0)[0]

    def judge(self, schema: Compiled, text: str) -> tuple[bool, Places]:
        """The verdict and the places: fewer than there are, or none, if naming them takes too long. Raises Uninspectable."""
        return self._ask(schema, text, FINDINGS)

    def close(self) -> None:
        """End the process, if this one started it; the next question starts another."""
        if self._process is not None and self._owner == os.getpid():
            self._end(self._process)

    def _ask(self, schema: Compiled, text: str, places: int) -> tuple[bool, Places]:
        with self._lock:
            process = self._running()
            done = False
            try:
                valid, named, done = self._exchange(process, schema, text, places)
            finally:
                # Whatever ended the question, the next must not read the rest of its answer.
                if not done:
                    self._end(process)
        if valid is None:
            raise Uninspectable("judging the document takes too long or too much memory")
        return valid, named

    def _exchange(
        self, process: subprocess.Popen[bytes], schema: Compiled, text: str, places: int
    ) -> tuple[bool | None, Places, bool]:
        """(the verdict or None, the places, whether the process lives)."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(_request(schema, text, places))
            process.stdin.flush()
        except BrokenPipeError:
            return None, [], False
        answer = process.stdout.readline()
        if not answer:
            return None, [], False
        named: Places = []
        valid = bool(json.loads(answer))
        for _ in range(2 if places and not valid else 0):
            line = process.stdout.readline()
            if not line:
                return valid, named, False
            named = [tuple(each) for each in json.loads(line)]
        return valid, named, True

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner != os.getpid():
            # Forked: the process is the parent's, and so are its answers.
            self._process.returncode = 0
            self._process = None
        if self._process is None:
            command = [sys.executable, "-I", alone.__file__, str(ASIDE_MEMORY_BYTES)]
            quiet = subprocess.DEVNULL
            # Nothing of the environment: it may hold credentials, and none of it is needed.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, env={}, close_fds=True
            )
            self._owner = os.getpid()
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
        process.wait()
        if self._process is process:
            self._process = None


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
