"""Keeps signals out of what must not be torn: a cold shutdown raises inside the child, between any two bytecodes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_MASKED = {signal.SIGTERM, signal.SIGUSR1, signal.SIGQUIT, signal.SIGINT}


@contextmanager
def signals_masked() -> Iterator[set[int]]:
    """Hold signals back in this thread until the block is left. A thread started inside never takes them: another
    thread would otherwise accept the signal, and Python would still run its handler in the main thread.

    Gives what was held back before, for `signals_let_in`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _MASKED)
    try:
        yield set(before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def signals_let_in(outside: set[int]) -> Iterator[None]:
    """Within `signals_masked`, take signals again as outside of it; one that waited is taken at once, inside the block."""
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, outside)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


def block_signals() -> None:
    """For a thread's own start: it never takes a signal, the main thread does."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _MASKED)
