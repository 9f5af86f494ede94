"""`tenure schedules add`, and how a step is written."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli import values
from tenure.cli.output import Json, plain, print_json, say
from tenure.model.errors import UsageError, shortened

if TYPE_CHECKING:
    from tenure.model.definitions import ScheduleSpec

_STEP = re.compile(
    r"(?P<beside>\+)?(?P<kind>[^\s:@+][^\s:@]*)(?:@(?P<on_failure>[a-z]+))?(?::(?P<params>.*))?", re.DOTALL
)


class Overlap(StrEnum):
    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    ALLOW = "allow"


class Missed(StrEnum):
    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class OnFailure(StrEnum):
    STOP = "stop"
    CONTINUE = "continue"


def add_to(app: typer.Typer) -> None:
    app.command("add")(add)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, unique.")],
    step: Annotated[
        list[str],
        typer.Option(
            metavar="[+]KIND[@stop|@continue][:PARAMS]",
            help="A task; may be repeated, one after another. + in front: beside the step before it. "
            "@continue: go on though it fails. PARAMS: a JSON object, or @FILE.",
        ),
    ],
    cron: Annotated[
        str | None, typer.Option(metavar="LINE", help='Minute, hour, day, month, weekday: "*/5 * * * *"; or @daily.')
    ] = None,
    zone: Annotated[str | None, typer.Option(metavar="ZONE", help="IANA zone of the line. Default: UTC.")] = None,
    every: Annotated[
        float | None, typer.Option(parser=values.seconds, metavar="TIME", help="Interval: 90s, 5m, 2h.")
    ] = None,
    manual: Annotated[bool, typer.Option("--manual", help="Only by hand: `tenure schedules run`.")] = False,
    overlap: Annotated[
        Overlap,
        typer.Option(help="When its last execution has not ended: leave it out, let one wait, or start beside it."),
    ] = Overlap.SKIP,
    misfire: Annotated[
        Missed, typer.Option(help="What was due while no beat ran: nothing, the last one, or all up to --at-most.")
    ] = Missed.ONCE,
    at_most: Annotated[int, typer.Option(min=1, max=1000, help="For --misfire all: how many are caught up.")] = 10,
    on_failure: Annotated[OnFailure, typer.Option(help="For steps that do not say it themselves.")] = OnFailure.STOP,
    disabled: Annotated[bool, typer.Option("--disabled", help="Fires only by hand until it is enabled.")] = False,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
    as_json: Json = False,
) -> None:
    """Add a schedule: when it recurs, and the steps it runs.

    Example: tenure schedules add nightly --cron "30 2 * * *" --zone Europe/Oslo --step catalog.export
    --step +catalog.audit@continue --step 'catalog.publish:{"to": "web"}'
    """
    from tenure import schedules
    from tenure.cli.frame import database, initiator

    wanted = _spec(
        name=name, description=description, cron=cron, zone=zone, every=every, manual=manual, overlap=overlap.value,
        misfire=misfire.value, at_most=at_most if misfire is Missed.ALL else None, on_failure=on_failure.value,
        enabled=not disabled, steps=steps(step),
    )  # fmt: skip
    with database() as connection:
        schedules.add(connection, wanted, initiator=initiator())
        made = schedules.get(connection, name)
    if as_json:
        print_json(schedules.described(made))
    elif made.next_run_at is None:
        say(f"schedule {name} added: it {'is disabled' if disabled else 'runs by hand'}")
    else:
        say(f"schedule {name} added: first due {plain(made.next_run_at)} UTC")


def _spec(**wanted: Any) -> ScheduleSpec:
    """Raises UsageError naming what does not fit together."""
    from pydantic import ValidationError

    from tenure.model.definitions import ScheduleSpec

    try:
        return ScheduleSpec(**wanted)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        said = shortened(first["msg"].removeprefix("Value error, "), 200)
        raise UsageError(f"{place}: {said}" if place else said) from None


def steps(written: list[str]) -> list[list[dict[str, Any]]]:
    """Steps as they are typed, in their groups. Raises UsageError naming the one that cannot be read."""
    groups: list[list[dict[str, Any]]] = []
    for text in written:
        beside, step = _step(text)
        if not beside:
            groups.append([])
        elif not groups:
            raise UsageError(f"step {shortened(text)!r}: + runs it beside the step before it, and there is none")
        groups[-1].append(step)
    return groups


def _step(text: str) -> tuple[bool, dict[str, Any]]:
    found = _STEP.fullmatch(text)
    if found is None:
        raise UsageError(f"step {shortened(text)!r}: write [+]KIND[@stop|@continue][:PARAMS]")
    if found["on_failure"] not in (None, "stop", "continue"):
        raise UsageError(f"step {shortened(text)!r}: @stop or @continue, not @{shortened(found['on_failure'])}")
    params = {} if found["params"] is None else values.params(found["params"])
    return bool(found["beside"]), {
        "kind": found["kind"],
        "params": params,
        "on_failure": found["on_failure"] or "inherit",
    }
