"""Starts the server binaries under an identity PostgreSQL accepts: it refuses uid 0 and a uid without a name.

No user is ever created, and no directory that is not ours is ever opened up.
"""

import ctypes
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure.embedded.errors import EmbeddedStartFailed

_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1
# A fixed environment: the caller's locale, PG* variables and library paths must not change what a server does.
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}


@dataclass(frozen=True)
class Launcher:
    """One way to start a server. `mode` is `user` (as we are), `userns` (in a user namespace where we look like
    `uid`) or `setuid` (really as `uid`, who must be able to reach binaries and data)."""

    mode: str
    uid: int
    gid: int

    def run(self, args: Sequence[str | Path], text: str = "") -> subprocess.CompletedProcess[str]:
        """Run to the end with `text` on stdin; ends with us."""
        return subprocess.run(
            args, input=text, capture_output=True, text=True, check=False, **self._options(signal.SIGKILL)
        )

    def popen(self, args: Sequence[str | Path], log: Path, last_signal: signal.Signals) -> subprocess.Popen[bytes]:
        """Start a server in a session of its own, so that Ctrl-C in the terminal does not reach it. On Linux it
        gets `last_signal` when this process ends in whatever way."""
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as sink:
            return subprocess.Popen(
                args,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                **self._options(last_signal),
            )

    def own(self, path: Path) -> None:
        """Give `path` and all below it to the user the servers run as (nothing to do unless we are root)."""
        if os.geteuid() != 0:
            return
        uid, gid = (self.uid, self.gid) if self.mode == "setuid" else (0, 0)
        if path.lstat().st_uid == uid:
            return
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                os.chown(Path(folder, name), uid, gid, follow_symlinks=False)
        # The top last: a walk that was cut short is done again by the next start.
        os.chown(path, uid, gid, follow_symlinks=False)

    def _options(self, last_signal: signal.Signals) -> dict[str, Any]:
        steps: list[Callable[[], None]] = []
        options: dict[str, Any] = {"env": _ENVIRONMENT, "cwd": "/"}
        if self.mode == "userns":
            steps.append(_enter_user_namespace(self.uid, self.gid))
        elif self.mode == "setuid":
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        # The kernel ties the signal to the parent THREAD: armed from a thread that ends, it would stop the server.
        if sys.platform == "linux" and threading.current_thread() is threading.main_thread():
            steps.append(_end_with_parent(last_signal))  # after any change of uid, which would clear it
        if steps:
            options["preexec_fn"] = lambda: [step() for step in steps]
        return options


def choose(postgres: Path) -> Launcher:
    """The launcher for this process. A trial run decides between user namespace and setuid, because containers
    and distributions forbid namespaces in many ways."""
    import pwd

    me = os.geteuid()
    if me != 0 and _has_name(me):
        return Launcher("user", me, os.getegid())
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise EmbeddedStartFailed("PostgreSQL cannot run as this user and there is no user 'nobody' to use") from None
    launcher = Launcher("userns", nobody.pw_uid, nobody.pw_gid)
    try:
        if launcher.run([postgres, "--version"]).returncode == 0:
            return launcher
    except (OSError, subprocess.SubprocessError):
        pass  # refused by the kernel or the container: only setuid is left
    if me != 0:
        raise EmbeddedStartFailed(f"PostgreSQL needs a named user and uid {me} has none: add it to /etc/passwd")
    return Launcher("setuid", nobody.pw_uid, nobody.pw_gid)


def _has_name(uid: int) -> bool:
    import pwd

    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _enter_user_namespace(uid: int, gid: int) -> Callable[[], None]:
    libc = _libc()
    maps = (("setgroups", "deny"), ("uid_map", f"{uid} {os.geteuid()} 1"), ("gid_map", f"{gid} {os.getegid()} 1"))

    def enter() -> None:
        if libc.unshare(_CLONE_NEWUSER):
            raise OSError(ctypes.get_errno(), "unshare")
        for name, text in maps:
            Path("/proc/self", name).write_text(text)

    return enter


def _end_with_parent(last_signal: signal.Signals) -> Callable[[], None]:
    libc, parent = _libc(), os.getpid()

    def arm() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(last_signal))
        if os.getppid() != parent:  # it ended before the signal was armed
            os._exit(1)

    return arm
