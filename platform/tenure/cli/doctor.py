"""`tenure doctor`: runs the checks and says what is wrong and what to do. Changes nothing."""

from __future__ import annotations

import typer

from tenure.cli.output import Json, plain, print_json


def add_to(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(as_json: Json = False) -> None:
    """Check settings, database, schema, broker, kinds and workers; exit 1 when something is wrong."""
    from tenure.cli import checks

    found = list(checks.run())
    healthy = all(check.state != "wrong" for check in found)
    if as_json:
        print_json({"healthy": healthy, "checks": [vars(check) for check in found]})
        raise typer.Exit(0 if healthy else 1)
    width = max(len(check.name) for check in found)
    for check in found:
        mark = {"ok": "OK", "warn": "WARN", "wrong": "WRONG", "skipped": "-"}[check.state]
        print(f"{mark:<6} {check.name:<{width}}  {plain(check.finding)}")
        if check.advice:
            print(f"{'':<6} {'':<{width}}  → {plain(check.advice)}")
    raise typer.Exit(0 if healthy else 1)
