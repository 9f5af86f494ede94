"""`tenure migrate`."""

from __future__ import annotations

import typer

from tenure.cli.output import Json, print_json, say


def add_to(app: typer.Typer) -> None:
    app.command("migrate")(migrate)


def migrate(as_json: Json = False) -> None:
    """Bring the database to the schema of this version; safe to run again, and while another one runs."""
    from tenure import migrate as migrations
    from tenure.cli.frame import connected, database_url, require_version

    url = database_url(direct=True)
    with connected(url) as connection:
        require_version(connection)
    done = migrations.migrate(url)
    if as_json:
        print_json({"before": done.before, "after": done.after})
    elif done.before == done.after:
        say(f"schema {done.after}: nothing to do")
    else:
        say(f"schema {done.after} (was {done.before or 'empty'})")
