"""Which process this is, for good: machine boot, pid and start time. A pid alone comes again, in containers at once."""

from __future__ import annotations

import os
from pathlib import Path

_MACHINE = Path("/proc/sys/kernel/random/boot_id")


def instance(pid: int | None = None) -> str:
    """`machine boot/pid/start time` of a running process; empty where the system cannot tell (no /proc)."""
    pid = pid or os.getpid()
    started = _started(pid)
    try:
        return f"{_MACHINE.read_text().strip()}/{pid}/{started}" if started else ""
    except OSError:
        return ""


def gone(other: str) -> bool:
    """Whether that process is known to be gone. False when it runs, or was another machine's: expiry decides there.

    Two containers of one machine must not share a node name: neither sees the other's processes.
    """
    try:
        machine, pid, started = other.split("/")
        return machine == _MACHINE.read_text().strip() and _started(int(pid)) != started
    except (OSError, ValueError):
        return False


def start_ticks(pid: int) -> int:
    """When the process, or thread, began, to tell it from a later one of its id; 0 where nothing tells."""
    return int(_started(pid) or 0)


def alive(pid: int, started: int = 0) -> bool:
    """Whether the process runs: the one that began at `started` (`start_ticks`), if given, and no later one of its pid.

    A child that is dead but not yet collected by the pool does not.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
        return fields[0] not in (b"Z", b"X") and started in (0, int(fields[19]))
    except (FileNotFoundError, ProcessLookupError):
        pass  # no such process, or no /proc: the next answer decides
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _started(pid: int) -> str | None:
    """Clock ticks between the machine's boot and the start of the process; None for one that is gone or dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]
