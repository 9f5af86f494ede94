"""`tenure migrate`: Alembic under an advisory lock, forward only. A worker never migrates; it checks the revision."""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from tenure.model.errors import SchemaMismatch
from tenure.store.connect import engine_for, reachable

LOCK = 0x7E11_0001  # advisory key of "somebody is migrating"; workers wait, healthy, while it is held
# The oldest revision this code runs on; the newest is the newest migration that ships with it.
OLDEST = "0002"


@dataclass(frozen=True)
class Migrated:
    before: str | None
    after: str


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(str(importlib.resources.files("tenure._migrations")))))
    return config


def newest() -> str:
    """The newest revision that ships with this code."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None, "no migrations were installed"
    return head


def revision(connection: Connection) -> str | None:
    """The revision the database is at, or None for an empty one."""
    return MigrationContext.configure(connection).get_current_revision()


def migrate(url: str) -> Migrated:
    """Bring the database to the newest revision; waits while another migration holds the lock. Safe to run again.

    Raises DatabaseUnavailable, CredentialsRejected, or SchemaMismatch when the database is newer than this code.
    """
    engine = engine_for(url, application="tenure migrate")
    try:
        with reachable(engine) as connection:
            connection.execute(text("select pg_advisory_lock(:k)"), {"k": LOCK})
            connection.commit()
            before = revision(connection)
            connection.commit()
            _refuse_newer(before)
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
            after = revision(connection)
            assert after is not None
            return Migrated(before, after)
    finally:
        engine.dispose()  # closes the session, and with it the lock


def _refuse_newer(found: str | None) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found is not None and found not in known:
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
