"""The checks of `doctor`, in the order in which one failure explains the next. Each answers; none raises, none changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tenure.cli import frame
from tenure.model.errors import TenureError, Unavailable, shortened

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True)
class Check:
    """One line of the doctor. Only `wrong` makes the exit code 1; `skipped` could not be looked at."""

    name: str
    state: Literal["ok", "warn", "wrong", "skipped"]
    finding: str
    advice: str | None = None


def ok(name: str, finding: str) -> Check:
    return Check(name, "ok", finding)


def wrong(name: str, error: TenureError) -> Check:
    """The line of a service that is away says what is wrong and, after a colon, what to do; others name the field first."""
    line = shortened(error, 400)
    finding, _, advice = line.partition(": ") if isinstance(error, Unavailable) else (line, "", "")
    return Check(name, "wrong", finding, advice or None)


def run() -> Iterator[Check]:
    """All checks. What needs the database is skipped when it cannot be used."""
    from tenure import settings

    try:
        settings.load()
    except TenureError as error:
        yield wrong("settings", error)
        return
    yield ok("settings", "valid")
    yield _guarded("kinds", _kinds)
    yield _guarded("broker", _broker)
    yield from _database()


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    from tenure.cli.failures import as_ours

    try:
        return check()
    except Exception as error:
        return wrong(name, as_ours(error))


def _kinds() -> Check:
    from tenure import registry, settings

    names = registry.load(settings.load().kind_packages).names
    if not names:
        return Check("kinds", "warn", "none are installed here", "name their package in TENURE_KINDS, or install one")
    return ok("kinds", f"{len(names)} loadable: {shortened(', '.join(names), 120)}")


def _broker() -> Check:
    from tenure.cli import broker

    return ok("broker", broker.ping(frame.broker_url()))


def _database() -> Iterator[Check]:
    from tenure.cli.failures import as_ours

    names = ("PostgreSQL", "clock", "schema", "partitions", "transactions", "workers", "leases", "schedules", "backlog")
    done: set[str] = set()
    try:
        with frame.connected(frame.database_url()) as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            yield ok("database", "reachable")
            done.add("database")
            for check in _of(connection):
                done.add(check.name)
                yield check
    except Exception as error:
        yield wrong("database", as_ours(error))
    yield from (Check(name, "skipped", "not looked at") for name in names if name not in done)


def _of(connection: Connection) -> Iterator[Check]:
    from tenure.cli import database_checks as checks

    before = time.time()
    yield from checks.server(connection, before)
    yield checks.transactions(connection)
    schema = _guarded("schema", lambda: checks.schema(connection))
    yield schema
    if schema.state == "ok":
        yield checks.partitions(connection)
        yield checks.workers(connection)
        yield checks.leases(connection)
        yield checks.schedules(connection)
        yield checks.backlog(connection)
