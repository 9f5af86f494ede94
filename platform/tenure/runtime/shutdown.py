"""The one stop of a process and its forked children, and the handle by which loops learn of it.

A stop is always something somebody asked for, and never taken back. Nothing here logs: it runs in signal handlers.
"""

import os
import signal
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Protocol, TypeVar

from tenure.runtime.shared import WakePipe, readable, shared_words


class StopAware(Protocol):
    """What a retry loop needs to know of a stop. A `Watcher` is one, so is an attempt."""

    def is_running(self) -> bool:
        """True until the stop. Never blocks."""
        ...

    def sleep(self, seconds: float) -> bool:
        """Wait; True when the full time passed, False as soon as there is a stop."""
        ...


class HasFileno(Protocol):
    """Anything poll() can wait for: a connection, a socket, a pipe."""

    def fileno(self) -> int:
        """The descriptor."""
        ...


Readable = TypeVar("Readable", bound="int | HasFileno")


class _Line:
    """The flag and the pipe behind a Shutdown and its watchers; alive as long as one of them is, in this process."""

    def __init__(self) -> None:
        (self._flag,) = shared_words(1, 1)
        # Nobody reads the byte: the pipe stays readable for all watchers, also of children forked after the stop.
        self.pipe = WakePipe()

    def trip(self) -> None:
        # The flag first: whoever the pipe wakes must find it set. The byte every time: a process killed between the
        # two in an earlier call would otherwise leave sleepers that nobody wakes.
        self._flag[0] = 1
        self.pipe.ring()

    def tripped(self) -> bool:
        return bool(self._flag[0])


class Shutdown:
    """Asks loops to stop. Make one per process, before any fork, and hand `watcher()` to the loops.

    Its children share the stop, whichever of them asks. Dropping the object stops nothing, and watchers keep working.
    """

    def __init__(self) -> None:
        self._line = _Line()

    def stop(self) -> None:
        """Ask. Twice is harmless; never blocks; safe in a signal handler and from any thread or forked child."""
        self._line.trip()

    def watcher(self) -> "Watcher":
        """A handle that can tell of the stop but not ask for it. Cheap; any number may exist."""
        return Watcher(self._line)

    def listen_for_signals(self, *signals: int) -> None:
        """Stop on these signals (none given: SIGTERM and SIGINT), then call the Python handler that was there before.

        A default action (dying, KeyboardInterrupt) is replaced, not chained: leaving in good order is the point.
        For this process only: in a forked child that sets no handler of its own, the signal does what it did before.
        Call it in the main thread (ValueError elsewhere: Python's rule).
        """
        for number in signals or (signal.SIGTERM, signal.SIGINT):
            previous = signal.getsignal(number)
            if not (isinstance(previous, _Handler) and previous.listens_for(self._line)):
                signal.signal(number, _Handler(self._line, previous))


class _Handler:
    """The handler of one signal. Holds the line, not the Shutdown: the signal works after that was dropped."""

    def __init__(self, line: _Line, previous: Callable[[int, FrameType | None], Any] | int | None) -> None:
        self._line = line
        self._previous = previous
        self._pid = os.getpid()

    def listens_for(self, line: _Line) -> bool:
        return self._line is line and self._pid == os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        ours = os.getpid() == self._pid
        if ours:
            self._line.trip()
        if callable(self._previous):
            if not ours or self._previous is not signal.default_int_handler:
                self._previous(number, frame)
        elif not ours and self._previous == signal.SIG_DFL:
            # A signal to one child must not stop its neighbours, and must not be swallowed either.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


class Watcher:
    """Tells a loop of the stop. Made by `Shutdown.watcher()`; valid in children forked later too."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    def is_running(self) -> bool:
        """True until the stop. Never blocks."""
        return not self._line.tripped()

    def sleep(self, seconds: float) -> bool:
        """Wait; True when the full time passed, False the moment a stop arrives, at once if it already has."""
        return self.is_running() and not self._line.pipe.wait(seconds) and self.is_running()

    def fileno(self) -> int:
        """Readable from the stop on, for loops with a poll() of their own. Never read from it, never close it."""
        return self._line.pipe.fileno()

    def wait_readable(self, sources: Readable | Iterable[Readable], timeout: float | None) -> list[Readable]:
        """Wait for descriptors, or objects that have one, and the stop together; `timeout` in seconds, None: no limit.

        Returns the sources that can be read, have ended or have failed (reading says which). Empty when the time
        passed, and always once there is a stop: ask `is_running()`. OSError (EBADF) when a source is closed.
        """
        if not self.is_running():
            return []
        given: list[Any] = [sources] if isinstance(sources, int) or hasattr(sources, "fileno") else list(sources)
        fds = [source if isinstance(source, int) else source.fileno() for source in given]
        ready = readable([*fds, self.fileno()], timeout)
        if not self.is_running():
            return []
        return [source for source, fd in zip(given, fds, strict=True) if fd in ready]
