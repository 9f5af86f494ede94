"""`tenure up`: everything on one machine, for a first start and for development; one process to stop."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.output import Json, note, print_json, say


def add_to(app: typer.Typer) -> None:
    app.command("up")(up)


def up(
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Child processes of the worker. Default: TENURE_CONCURRENCY.")
    ] = None,
    flower_port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port of Flower, on 127.0.0.1.")] = 5555,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds until all must be ready.")] = 90.0,
    as_json: Json = False,
) -> None:
    """Run servers, worker, beat and Flower until Ctrl-C; prints `ready` when work can be done.

    PostgreSQL and Valkey are embedded, their state in TENURE_HOME, unless TENURE_DATABASE_URL and TENURE_BROKER_URL
    name servers of your own.
    """
    from tenure import settings
    from tenure.cli.single import alone_in, require_port

    with alone_in(settings.load().home):
        require_port(flower_port)
        code = _run(concurrency, flower_port, timeout, as_json=as_json)
    note("stopped")
    raise typer.Exit(code)


def _run(concurrency: int | None, flower_port: int, timeout: float, *, as_json: bool) -> int:
    from tenure.cli import supervision
    from tenure.cli.broker import address
    from tenure.cli.servers import provided

    with provided(timeout) as urls, supervision.Family(urls.environment()) as family:
        family.start_all(concurrency=concurrency, flower_port=flower_port)
        if family.wait_ready(timeout, flower_port):
            addresses = {
                "database": address(urls.database),
                "broker": address(urls.broker),
                "flower": f"http://127.0.0.1:{flower_port}/",
            }
            if as_json:
                print_json({"ready": True, **addresses}, indent=None)
            else:
                say("ready  " + "  ".join(f"{name} {where}" for name, where in addresses.items()))
            family.wait_stop()
        return family.stop_all()
