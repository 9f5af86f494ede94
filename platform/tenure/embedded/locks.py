"""File locks (flock): the kernel drops them when the holder ends, however it ends, so nothing is judged by pid.

A holder's forked children keep the lock with it; programs it starts do not (descriptors are close-on-exec).
"""

import io
import os
import time
from pathlib import Path

PACE = 0.02


def open_lock(path: Path) -> io.FileIO:
    return io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")


def try_lock(file: io.FileIO, *, shared: bool = False) -> bool:
    """Take the lock now; False when somebody else holds it."""
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_lock(file: io.FileIO, deadline: float, *, shared: bool = False) -> bool:
    """Take the lock before `deadline` (time.monotonic()); False when that did not come true."""
    while not try_lock(file, shared=shared):
        if time.monotonic() >= deadline:
            return False
        time.sleep(PACE)
    return True


def is_locked(path: Path) -> bool:
    """Whether some process holds `path` exclusively. Creates nothing, keeps nothing."""
    try:
        file = io.FileIO(path, "r")
    except OSError:
        return False  # there is none, or it is another user's: nothing of ours runs
    with file:
        return not try_lock(file, shared=True)
