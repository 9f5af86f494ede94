"""The servers behind `tenure up` and `tenure env`: the user's own, else embedded ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import typer

from tenure.cli.output import Json, note, print_json
from tenure.model.errors import Unavailable


def add_to(app: typer.Typer) -> None:
    app.command("env")(env)


@dataclass(frozen=True)
class Urls:
    """Where the servers are. The URLs hold passwords: they stay out of repr and messages."""

    database: str = field(repr=False)
    broker: str = field(repr=False)

    def environment(self) -> dict[str, str]:
        """The environment of a child that is to use them."""
        return {**os.environ, "TENURE_DATABASE_URL": self.database, "TENURE_BROKER_URL": self.broker}


@contextmanager
def provided(timeout: float) -> Iterator[Urls]:
    """Servers, migrated: those of the environment, embedded ones for what it does not name, held for the block."""
    from tenure import migrate, settings
    from tenure.cli.frame import connected, require_version

    known = settings.load()
    lease = None
    if known.database_url is None or known.broker_url is None:
        from tenure.embedded import acquire

        note(f"starting embedded servers in {known.home}")
        lease = acquire(known.home, timeout=timeout)
    try:
        database = lease.servers.database_url if lease and known.database_url is None else known.client_url
        broker = lease.servers.broker_url if lease and known.broker_url is None else known.broker
        direct = known.direct_url.get_secret_value() if known.direct_url else database
        with connected(direct) as connection:
            require_version(connection)
        migrate.migrate(direct)
        yield Urls(database, broker)
    finally:
        if lease:
            lease.release()


def env(as_json: Json = False) -> None:
    """Print the URLs of the running embedded servers as `export …` (they hold a password)."""
    import shlex

    from tenure import settings
    from tenure.cli.frame import embedded

    servers = embedded()
    if servers is None:
        raise Unavailable(f"no embedded servers run in {settings.load().home}: start them with `tenure up`")
    found = {"TENURE_DATABASE_URL": servers.database_url, "TENURE_BROKER_URL": servers.broker_url}
    if as_json:
        print_json(found)
    else:
        print("export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in found.items()))
