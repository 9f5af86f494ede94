"""`tenure schedules apply`, `export` and `take-over`: schedules as files, and from other schedulers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.output import Json, console, note, plain, print_json
from tenure.model.errors import InvalidSettings, ScheduleInvalid, UsageError, shortened

if TYPE_CHECKING:
    from tenure.model.definitions import Plan, Wanted

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Prune = Annotated[
    bool, typer.Option("--prune", help="Remove what an earlier run added and is wanted no more; nothing else.")
]
Take = Annotated[bool, typer.Option("--take", help="Also change, and keep from now on, what another origin keeps.")]


def add_to(app: typer.Typer) -> None:
    app.command("apply")(apply)
    app.command("export")(export)
    app.command("take-over")(take_over)


def apply(
    file: Annotated[str, typer.Argument(metavar="FILE", help="TOML, YAML or JSON, by its suffix.")],
    dry_run: DryRun = False,
    prune: Prune = False,
    take: Take = False,
    as_json: Json = False,
) -> None:
    """Make the schedules what a file says: show what differs, and change it in one transaction."""
    from tenure.model.definitions import read

    _applied(read(file, _text(file)), dry_run=dry_run, prune=prune, take=take, as_json=as_json)


def export(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Those; default: all.")] = None,
    origin: Annotated[
        str | None, typer.Option(help="Only what this origin keeps: `file`, unless its file says so.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print schedules as a file that apply takes: YAML, or with --json JSON. Built-in ones only where they are named."""
    from tenure import applying
    from tenure.cli.frame import database
    from tenure.model.definitions import root, write

    if names and origin is not None:
        raise UsageError("give names or --origin, not both")
    with database() as connection:
        specs = applying.exported(connection, names or [], origin=origin)
    if as_json:
        print_json(root(specs, origin))
    else:
        print(write(specs, origin), end="")


def take_over(
    reference: Annotated[str, typer.Argument(metavar="APP", help="A Celery app, as for celery -A: shop.tasks:app.")],
    dry_run: DryRun = False,
    prune: Prune = False,
    take: Take = False,
    as_json: Json = False,
) -> None:
    """Make schedules of a Celery app's beat_schedule. Then stop its own beat: both would send."""
    from tenure import plugins, registry, settings
    from tenure.applying import SOURCES

    source = dict(plugins.loaded(SOURCES)).get("celery")
    if source is None:
        raise InvalidSettings(
            "nothing here reads Celery apps: the entry point celery of tenure.schedule_sources is missing"
        )
    found = source(reference, registry.load(settings.load().kind_packages))
    for line in found.notes:
        note(line)
    _applied(found.wanted, dry_run=dry_run, prune=prune, take=take, as_json=as_json)
    if not dry_run:
        note("stop the celery beat of that app, if it runs: both would send")


def _text(file: str) -> str:
    from tenure.model.definitions.reading import NAMED

    try:
        return Path(file).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScheduleInvalid(f"{shortened(file, NAMED)}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise UsageError(f"cannot read {shortened(file, NAMED)}: {error.strerror}") from None


def _applied(wanted: Wanted, *, dry_run: bool, prune: bool, take: bool, as_json: bool) -> None:
    from tenure import applying
    from tenure.cli.frame import database, initiator

    with database() as connection:
        if dry_run:
            made = applying.plan(connection, wanted, prune=prune, take=take)
        else:
            made = applying.apply(connection, wanted, initiator=initiator(), prune=prune, take=take)
    if as_json:
        print_json(_document(made, dry_run))
    else:
        _print(made, dry_run)


def _document(made: Plan, dry_run: bool) -> dict[str, Any]:
    return {
        "origin": made.origin,
        "dry_run": dry_run,
        "added": [spec.name for spec in made.added],
        "changed": [
            {"name": one.spec.name, "changes": [vars(change) for change in one.changes]} for one in made.changed
        ],
        "removed": list(made.removed),
        "unchanged": list(made.unchanged),
        "left": list(made.left),
    }


def _print(made: Plan, dry_run: bool) -> None:
    from rich.text import Text

    from tenure.model.definitions.planning import said_recurrence, said_steps

    lines = [(f"+ {spec.name}: {said_recurrence(spec)}, {said_steps(spec)}", "green") for spec in made.added]
    for one in made.changed:
        lines.append((f"~ {one.spec.name}", "yellow"))
        lines += [(f"    {change.field}: {change.before} → {change.after}", "yellow") for change in one.changes]
    lines += [(f"- {name}", "red") for name in made.removed]
    lines += [(f"? {name}: wanted no more; --prune removes it", "magenta") for name in made.left]
    target = console()
    for line, style in lines:
        target.print(Text(plain(line), style), soft_wrap=True)
    target.print(Text(_summary(made, dry_run)), soft_wrap=True)


def _summary(made: Plan, dry_run: bool) -> str:
    counts = (
        (made.added, "added"),
        (made.changed, "changed"),
        (made.removed, "removed"),
        (made.unchanged, "unchanged"),
    )
    said = ", ".join(f"{len(which)} {word}" for which, word in counts if which) or "nothing to do"
    return f"{said}; nothing was written (--dry-run)" if dry_run else said
