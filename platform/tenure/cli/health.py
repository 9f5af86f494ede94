"""`tenure health`: for container probes. Reads a file; never the network."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from tenure.cli.output import Json, ago, print_json, say
from tenure.model.errors import Unavailable


class Role(StrEnum):
    """Processes that keep a health file."""

    WORKER = "worker"
    BEAT = "beat"


def add_to(app: typer.Typer) -> None:
    app.command("health")(health)


def health(
    role: Annotated[Role, typer.Option(help="Stale after 60 s (worker) or 120 s (beat).")],
    as_json: Json = False,
) -> None:
    """Say whether the worker or beat of this TENURE_HOME is alive, by its health file; exit 1 when not."""
    from tenure import settings
    from tenure.runtime.health import STALE_SECONDS

    path = settings.load().home / f"health-{role.value}"
    found = _read(path)
    # A time in the future was written before the clock was set back: it proves nothing either.
    fresh = abs(found["age_seconds"]) <= STALE_SECONDS[role.value]
    if as_json:
        print_json({"role": role, "fresh": fresh, **found})
    elif fresh:
        say(f"{role}: seen {ago(max(found['age_seconds'], 0))} ago, loop {found['counter']}")
    else:
        raise Unavailable(f"{role}: last seen {ago(found['age_seconds'])} ago: it hangs or has ended ({path})")
    raise typer.Exit(0 if fresh else 1)


def _read(path: Any) -> dict[str, Any]:
    import json
    from datetime import UTC, datetime

    try:
        document = json.loads(path.read_text())
        at = datetime.fromisoformat(document["at"]).astimezone(UTC)
        counter = int(document["counter"])
    except OSError as error:
        raise Unavailable(f"no health file {path} ({error.strerror}): is it running with this TENURE_HOME?") from None
    except (ValueError, TypeError, KeyError):
        raise Unavailable(f"the health file {path} cannot be read: it must hold at and counter as JSON") from None
    return {"at": at, "counter": counter, "age_seconds": (datetime.now(UTC) - at).total_seconds()}
