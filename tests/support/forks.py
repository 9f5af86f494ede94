"""Forked children for tests: each runs one function and leaves by os._exit, so the test process is never doubled."""

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

PATIENCE_S = 10.0


@dataclass(frozen=True)
class Child:
    """A running child and the test's end of the line to it."""

    pid: int
    line: Connection

    def hear(self) -> Any:
        """What the child says next; fails the test if it says nothing, or died of an exception."""
        assert self.line.poll(PATIENCE_S), f"child {self.pid} said nothing for {PATIENCE_S} s"
        said = self.line.recv()
        assert not (isinstance(said, str) and said.startswith("Traceback")), said
        return said

    def say(self, message: Any) -> None:
        self.line.send(message)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.end()

    def end(self) -> int:
        """Wait for the end; the exit code, negative for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def forked(body: Callable[[Connection], None]) -> Iterator[Child]:
    """Run `body` in a child, with its end of the line. Killed at the end of the block if it is still there."""
    ours, theirs = Pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ours.close()
            body(theirs)
            code = 0
        except BaseException:
            theirs.send(traceback.format_exc())
        finally:
            os._exit(code)
    theirs.close()
    del body  # the parent keeps nothing alive that the test wants to drop
    try:
        yield Child(pid, ours)
    finally:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # the test has already waited for it
        ours.close()
