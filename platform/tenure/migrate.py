"""`tenure migrate`: Alembic under an advisory lock, forward only. A worker never migrates; it checks the revision."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from sqlalchemy import Connection, text

from tenure.model.errors import SchemaMismatch
from tenure.store import advisory
from tenure.store.connect import engine_for, reachable

# The oldest revision this code runs on; the newest is the newest migration that ships with it.
OLDEST = "0016"


@dataclass(frozen=True)
class Migrated:
    before: str | None
    after: str


def shipped() -> list[str]:
    """The revisions that ship with this code, oldest first, by their file names: Alembic, slow to import, is for `migrate`."""
    names = (entry.name for entry in files("tenure._migrations.versions").iterdir())
    return sorted(name[:4] for name in names if name[:4].isdigit() and name.endswith(".py"))


def revision(connection: Connection) -> str | None:
    """The revision the database is at, or None for an empty one."""
    if not connection.execute(text("select to_regclass('alembic_version') is not null")).scalar():
        return None
    found: str | None = connection.execute(text("select version_num from alembic_version")).scalar()
    return found


def migrate(url: str) -> Migrated:
    """Bring the database to the newest revision and seed the built-in schedules; waits while another migration holds the
    lock. Safe to run again.

    Raises DatabaseUnavailable, CredentialsRejected, or SchemaMismatch when the database is newer than this code.
    """
    from tenure.built_in import seed  # what it needs is slow to import, and every command checks the revision

    engine = engine_for(url, application="tenure migrate")
    try:
        with reachable(engine) as connection:
            connection.execute(text("select pg_advisory_lock(:k)"), {"k": advisory.MIGRATING})
            connection.commit()
            before = revision(connection)
            connection.commit()
            _refuse_newer(before)
            _upgrade(connection)
            connection.commit()
            after = revision(connection)
            assert after is not None
            # Under the same lock: two that seed at once would each find nothing there.
            seed(connection)
            connection.commit()
            return Migrated(before, after)
    finally:
        engine.dispose()  # closes the session, and with it the lock


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("tenure._migrations")))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _refuse_newer(found: str | None) -> None:
    if found is not None and found not in shipped():
        raise SchemaMismatch(f"the database is at schema {found}, newer than this code knows: deploy the newer code")


def check(connection: Connection) -> None:
    """Refuse a database outside the range this code runs on, naming the command to run."""
    found = revision(connection)
    if found is None:
        raise SchemaMismatch("the database has no Tenure schema: run `tenure migrate`")
    _refuse_newer(found)
    if found < OLDEST:
        raise SchemaMismatch(
            f"the database is at schema {found}, this code needs {OLDEST} or newer: run `tenure migrate`"
        )
