"""Loopback ports: the last one again when it is free, so that clients find a restarted server where it was."""

import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"


def free(port: int = 0) -> int | None:
    """`port` (0: any) if it can be bound at this moment, else None. It may be gone when the server wants it."""
    with socket.socket() as probe:
        # As the servers do: connections in TIME_WAIT do not keep a port busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return None
        number: int = probe.getsockname()[1]
        return number


def remembered(file: Path) -> int | None:
    """The port written in `file`, if it is free now."""
    try:
        return free(int(file.read_text()))
    except (FileNotFoundError, ValueError, OverflowError):
        return None
