"""What a process shares with the children it forks: words of memory, and pipes that wake who waits.

Made before the fork. Never holds a lock: a child killed at any point must not leave one behind.
"""

import ctypes
import errno
import mmap
import os
import select
import time
import weakref
from collections.abc import Iterable
from typing import TypeAlias

Words: TypeAlias = "ctypes.Array[ctypes.c_int64]"

WORD_BYTES = ctypes.sizeof(ctypes.c_int64)
# poll() takes milliseconds in a C int, 24.8 days at most; a longer wait is simply several.
_LONGEST_POLL_S = 86_400.0


def shared_words(rows: int, columns: int) -> list[Words]:
    """`rows` arrays of `columns` signed 64-bit words, all 0, in one anonymous mapping that forked children share.

    Each word is aligned, so a load or a store of one is never torn; nothing orders or ties together two of them.
    """
    # Not multiprocessing.RawArray: its heap takes a lock, and lives in an unlinked file with a descriptor of its own.
    memory = mmap.mmap(-1, rows * columns * WORD_BYTES)
    return [(ctypes.c_int64 * columns).from_buffer(memory, row * columns * WORD_BYTES) for row in range(rows)]


def readable(fds: Iterable[int], timeout: float | None) -> list[int]:
    """Those of `fds` that can be read, or have failed or ended, within `timeout` seconds (None: no limit).

    Empty when the time passed. OSError (EBADF) names a descriptor that is closed. Never waits by anything but poll(),
    which unlike select() takes descriptors above 1023.
    """
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _LONGEST_POLL_S if deadline is None else min(deadline - time.monotonic(), _LONGEST_POLL_S)
        events = poller.poll(max(left, 0.0) * 1000)
        for fd, event in events:
            if event & select.POLLNVAL:
                raise OSError(errno.EBADF, f"descriptor {fd} was closed while it was to be waited for")
        if events or (deadline is not None and time.monotonic() >= deadline):
            return [fd for fd, _ in events]


class WakePipe:
    """A pipe whose bytes mean nothing but "look again". Its descriptors are closed with the last reference to it."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        closing = weakref.finalize(self, _close, self._reader, self._writer)
        # At exit the kernel closes them anyway; doing it earlier would pull them from under threads still waiting.
        closing.atexit = False

    def fileno(self) -> int:
        """The end to wait on, in this process and in every child forked after the pipe was made."""
        return self._reader

    def ring(self) -> None:
        """Make the pipe readable. Never blocks; safe in a signal handler and from any thread."""
        try:
            os.write(self._writer, b"!")
        except BlockingIOError:
            pass  # full means readable, which is all a byte is for

    def wait(self, timeout: float | None) -> bool:
        """True as soon as the pipe is readable, False when `timeout` seconds passed. Takes nothing out of it."""
        return bool(readable([self._reader], timeout))

    def drain(self) -> None:
        """Take everything out, so that the next wait waits again."""
        try:
            while os.read(self._reader, 65_536):
                pass
        except BlockingIOError:
            pass  # empty, as wanted


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
