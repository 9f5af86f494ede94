"""`tenure env`: how to reach the running embedded servers."""

from __future__ import annotations

import typer

from tenure.cli.output import Json, print_json
from tenure.model.errors import Unavailable


def add_to(app: typer.Typer) -> None:
    app.command("env")(env)


def env(as_json: Json = False) -> None:
    """Print `export TENURE_DATABASE_URL=… TENURE_BROKER_URL=…` of the running embedded servers (holds a password)."""
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
