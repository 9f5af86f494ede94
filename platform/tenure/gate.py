"""The start gate: a process consumes nothing before its database is reachable and at a schema it knows."""

from __future__ import annotations

import time

import structlog
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from tenure import migrate
from tenure.model.errors import DatabaseUnavailable, SchemaMismatch
from tenure.runtime.backoff import Backoff
from tenure.runtime.health import Health
from tenure.runtime.shutdown import Watcher
from tenure.settings import Settings
from tenure.store import advisory
from tenure.store.connect import engine_for, reachable, refused

_MIGRATING = text("""select exists (select 1 from pg_locks
    where locktype = 'advisory' and classid = 0 and objid = :key and objsubid = 1 and granted)""")


def wait(settings: Settings, watcher: Watcher, *, role: str) -> None:
    """Return when work may begin, or when a stop came. Raises CredentialsRejected at once, DatabaseUnavailable after
    `connect_seconds`, SchemaMismatch unless a migration is just running."""
    log = structlog.get_logger("tenure.gate")
    backoff = Backoff(initial=0.5, factor=1.5, ceiling=5.0)
    health = Health(settings.home, role)
    end = time.monotonic() + settings.connect_seconds
    while watcher.is_running():
        health.beat()
        try:
            if _open(settings):
                return
            log.info("waiting_for_migration", role=role)
        except DatabaseUnavailable:
            log.warning("waiting_for_database", role=role, attempt=backoff.attempt() + 1, retry_in=backoff.delay())
            if time.monotonic() + backoff.delay() >= end:
                raise
        if not backoff.wait(watcher):
            return
        backoff.failed()


def _open(settings: Settings) -> bool:
    """Whether the schema fits; False while somebody is migrating."""
    engine = engine_for(settings.session_url, application="tenure gate")
    try:
        with reachable(engine) as connection:
            return _fits(connection)
    except OperationalError as error:
        raise refused(error) from None  # it went away between two statements


def _fits(connection: Connection) -> bool:
    try:
        migrate.check(connection)
    except SchemaMismatch:
        if connection.execute(_MIGRATING, {"key": advisory.MIGRATING}).scalar():
            return False
        raise
    return True
