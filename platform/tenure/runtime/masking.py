"""Keeps signals out of what must not be torn: a cold shutdown raises inside the child, between any two bytecodes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_MASKED = {signal.SIGTERM, signal.SIGUSR1, signal.SIGQUIT, signal.SIGINT}


@contextmanager
def signals_masked() -> Iterator[None]:
    """Hold signals back in this thread until the block is left. A thread started inside never takes them: another
    thread would otherwise accept the signal, and Python would still run its handler in the main thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _MASKED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def block_signals() -> None:
    """For a thread's own start: it never takes a signal, the main thread does."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _MASKED)
