"""`tenure worker`, `tenure beat`, `tenure flower`: this process becomes Celery's, so signals and exit codes are its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from tenure.model.errors import UsageError, shortened


def add_to(app: typer.Typer) -> None:
    app.command("worker")(worker)
    app.command("beat")(beat)
    app.command("flower")(flower)


def worker_command(
    *, concurrency: int | None = None, queues: str | None = None, node: str | None = None, pool: str = "prefork"
) -> list[str]:
    """Celery's worker as one command line; queues default to those of all installed kinds and TENURE_ADOPT_QUEUES."""
    from tenure import registry, settings

    known = settings.load()
    installed = registry.load(known.kind_packages)
    possible = list(dict.fromkeys([*(installed.queues or ["default"]), *known.foreign_queues]))
    serve = [name.strip() for name in queues.split(",") if name.strip()] if queues is not None else possible
    for name in serve:
        if name not in possible:
            raise UsageError(f"no kind installed here uses queue {shortened(name)!r}: queues are {', '.join(possible)}")
    return [
        *_celery("worker"), "-O", "fair", "--without-mingle", "--without-gossip", "-P", pool,
        "-c", str(concurrency or known.concurrency), "-n", f"{node or known.node or 'tenure'}@%h",
        "-Q", ",".join(serve or ["default"]), "-l", "INFO",
    ]  # fmt: skip


def beat_command() -> list[str]:
    """Celery's beat with our scheduler: schedules live in the database, no file is written."""
    return [sys.executable, "-m", "celery", "-A", "tenure_beat", "-q", "beat", "-S", "tenure", "-l", "INFO"]


def flower_command(*, port: int, address: str) -> list[str]:
    """Flower with our pages."""
    return [sys.executable, "-m", "tenure_workers.flower", f"--port={port}", f"--address={address}"]


def _celery(command: str) -> list[str]:
    return [sys.executable, "-m", "tenure_workers", "-A", "tenure_workers", command]


def environment(node: str | None = None) -> dict[str, str]:
    """The environment of a process: the running embedded servers stand in for URLs that are not set."""
    from tenure.cli.frame import broker_url, database_url

    urls = {"TENURE_DATABASE_URL": database_url, "TENURE_BROKER_URL": broker_url}
    named = {"TENURE_NODE": node} if node else {}
    return {**os.environ, **{name: find() for name, find in urls.items() if not os.environ.get(name)}, **named}


def _become(command: Sequence[str], node: str | None = None) -> NoReturn:
    variables = environment(node)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], list(command), variables)  # noqa: S606 - our own fixed list


Port = Annotated[int, typer.Option(min=1, max=65535, help="TCP port of its pages.")]


def worker(
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Child processes. Default: TENURE_CONCURRENCY.")
    ] = None,
    queues: Annotated[
        str | None, typer.Option(metavar="A,B", help="Queues to serve. Default: those of all installed kinds.")
    ] = None,
    node: Annotated[
        str | None, typer.Option(help="Name of this node; a restart under it settles what its old boot held.")
    ] = None,
    pool: Annotated[str, typer.Option(help="Celery pool: prefork, threads or solo.")] = "prefork",
) -> None:
    """Run a worker in the foreground (becomes `celery worker`)."""
    if pool not in ("prefork", "threads", "solo"):
        raise UsageError(f"pool {shortened(pool)!r}: prefork, threads or solo")
    if node is not None and (not node or any(c.isspace() or c in "@%" for c in node)):
        raise UsageError(f"node {shortened(node)!r}: a name without spaces, @ and %")
    _become(worker_command(concurrency=concurrency, queues=queues, node=node, pool=pool), node)


def beat() -> None:
    """Run beat in the foreground: schedules, recovery of stale leases, the safety net (becomes `celery beat`)."""
    _become(beat_command())


def flower(
    port: Port = 5555,
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Run Flower in the foreground (becomes `celery flower`)."""
    _become(flower_command(port=port, address=address))
