"""What every command shares: the database in one transaction, and who is asking. Also for the commands of plug-ins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tenure.model.errors import DatabaseUnavailable, InvalidSettings, SchemaMismatch
from tenure.model.records import Initiator

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tenure.embedded import Servers

POSTGRESQL = 18  # the schema uses uuidv7()


def initiator() -> Initiator:
    """Who runs this command: (user, uid, login)."""
    import pwd

    uid = os.getuid()
    try:
        login = pwd.getpwuid(uid).pw_name
    except KeyError:
        login = f"uid-{uid}"  # a container's user without a passwd entry
    return Initiator("user", str(uid), login)


def embedded() -> Servers | None:
    """The embedded servers of TENURE_HOME if they run."""
    from tenure import settings
    from tenure.embedded import running

    return running(settings.load().home)


def database_url(*, direct: bool = False) -> str:
    """TENURE_DATABASE_URL (`direct`: TENURE_DIRECT_URL first), else that of the running embedded servers."""
    from tenure import settings

    known = settings.load()
    if known.database_url is None and not (direct and known.direct_url) and (servers := embedded()):
        return servers.database_url
    return known.session_url if direct else known.client_url


def broker_url() -> str:
    """TENURE_BROKER_URL, else that of the running embedded servers."""
    from tenure import settings

    known = settings.load()
    if known.broker_url is None and (servers := embedded()):
        return servers.broker_url
    return known.broker


@contextmanager
def database(*, check: bool = True) -> Iterator[Connection]:
    """A connection whose transaction is committed when the block ends well. Refuses a schema this code cannot use."""
    with connected(database_url()) as connection:
        if check:
            check_schema(connection)
            connection.commit()
        yield connection
        connection.commit()


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """A connection of its own. Raises InvalidSettings, CredentialsRejected, DatabaseUnavailable; never driver text."""
    from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

    from tenure.store.connect import engine_for, reachable

    try:
        engine = engine_for(url, application="tenure")
    except (ArgumentError, ValueError):
        raise InvalidSettings(
            f"{_variable(url)} cannot be read: postgresql+psycopg2://USER:PASSWORD@HOST:PORT/DATABASE is its form"
        ) from None
    entered = False
    try:
        with reachable(engine) as connection:
            entered = True
            yield connection
    except DBAPIError as error:
        if entered or isinstance(error, OperationalError):
            raise
        raise DatabaseUnavailable(f"the database cannot be reached: an option in {_variable(url)} is wrong") from None
    finally:
        engine.dispose()


def _variable(url: str) -> str:
    """The variable that gave this URL."""
    from tenure import settings

    direct = settings.load().direct_url
    return "TENURE_DIRECT_URL" if direct and direct.get_secret_value() == url else "TENURE_DATABASE_URL"


def check_schema(connection: Connection) -> None:
    """Refuse a database that is not at a revision this code runs on."""
    from tenure import migrate

    migrate.check(connection)


def require_version(connection: Connection) -> None:
    """Refuse a PostgreSQL that is too old for the schema."""
    from sqlalchemy import text

    number = int(connection.execute(text("show server_version_num")).scalar_one()) // 10000
    if number < POSTGRESQL:
        raise SchemaMismatch(
            f"this is PostgreSQL {number}: the schema needs {POSTGRESQL} or newer (uuidv7()); upgrade the server"
        )
