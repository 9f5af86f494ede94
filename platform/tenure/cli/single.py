"""What `tenure up` needs for itself alone: its home, and Flower's port. Both are refused before anything starts."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.model.errors import Refused, TenureError, shortened


@contextmanager
def alone_in(home: Path) -> Iterator[None]:
    """Hold the home for the block, which is made when it is missing. Raises Refused when another `tenure up` holds it."""
    from tenure.embedded import locks

    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = locks.open_lock(home / "up.lock")
    except OSError as error:
        raise TenureError(f"cannot write to {shortened(home)}: {error.strerror}") from None
    with lock:
        if not locks.try_lock(lock):
            pid = lock.read(20).decode("ascii", "replace").strip() or "unknown"
            raise Refused(f"tenure up already runs in {shortened(home, 160)} (pid {shortened(pid)})")
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n".encode())
        yield


def require_port(port: int) -> None:
    """Raises Refused when nobody can listen on this loopback port now."""
    with socket.socket() as probe:
        # As Flower does: connections in TIME_WAIT do not keep a port busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            reason = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise Refused(f"port {port} {reason}: choose another with --flower-port") from None
