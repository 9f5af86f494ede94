"""The addresses of running servers, and the one file that hands them from the supervisor to everyone else."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Servers:
    """Where the servers of one home answer. The URLs carry the password, so they stay out of repr."""

    database_url: str = field(repr=False)
    broker_url: str = field(repr=False)
    mode: str
    pid: int


@dataclass(frozen=True)
class Home:
    """The files of one state directory. Only names live here; who writes what is said where it is written."""

    path: Path

    @property
    def gate(self) -> Path:
        return self.path / "gate.lock"

    @property
    def lease(self) -> Path:
        return self.path / "lease.lock"

    @property
    def supervisor(self) -> Path:
        return self.path / "supervisor.lock"

    @property
    def supervisor_log(self) -> Path:
        return self.path / "supervisor.log"

    @property
    def info(self) -> Path:
        return self.path / "servers.json"

    @property
    def password(self) -> Path:
        return self.path / "password"

    @property
    def elsewhere(self) -> Path:
        """Names the directory that holds the data when the servers' user cannot reach this home."""
        return self.path / "data-directory"

    def publish(self, servers: Servers) -> None:
        write_private(self.info, json.dumps(asdict(servers)))

    def published(self) -> Servers | None:
        try:
            return Servers(**json.loads(self.info.read_text()))
        except FileNotFoundError:
            return None


def write_private(path: Path, text: str) -> None:
    """Write `path` whole or not at all, readable by its owner only (0600)."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
