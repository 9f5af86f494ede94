"""`tenure records retention …`: how long the objects of a class are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.output import Json, print_json, print_table, say
from tenure.model.errors import UsageError

if TYPE_CHECKING:
    from tenure_records.retention import Policy

app = typer.Typer(
    no_args_is_help=True, help="How long objects of a class are kept: set, show, run.", rich_markup_mode="rich"
)
Class = Annotated[str, typer.Argument(metavar="CLASS", help="The class.")]


@app.command("set")
def set_policy(
    name: Class,
    keep_days: Annotated[
        float | None, typer.Option(metavar="DAYS", help="Objects whose data has not changed for so long go.")
    ] = None,
    keep_newest: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="All but the N objects made last go.")
    ] = None,
    for_ever: Annotated[bool, typer.Option("--for-ever", help="Keep all of them.")] = False,
    as_json: Json = False,
) -> None:
    """Say how long objects are kept; what is not given is not bounded. An object goes as soon as one bound says so."""
    from tenure.cli.frame import database
    from tenure_records.retention import set_retention

    if for_ever == (keep_days is not None or keep_newest is not None):
        raise UsageError("give --keep-days, --keep-newest or both, or else --for-ever")
    with database() as connection:
        policy = set_retention(connection, name, keep_days=keep_days, keep_newest=keep_newest)
    _report(policy, as_json=as_json)


@app.command("show")
def show(
    name: Annotated[str | None, typer.Argument(metavar="[CLASS]", help="One class. Default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Show how long objects are kept."""
    from tenure.cli.frame import database
    from tenure_records import list_classes
    from tenure_records.retention import get_retention

    with database() as connection:
        if name is not None:
            _report(get_retention(connection, name), as_json=as_json)
            return
        policies = [get_retention(connection, one.name) for one in list_classes(connection)]
    if as_json:
        print_json([_document(one) for one in policies])
        return
    print_table(
        ("Class", "Kept"), ((one.class_name, _sentence(one)) for one in policies),
        empty="no classes yet: `tenure records load CLASS FILE.ndjson` makes one",
    )  # fmt: skip


@app.command("run")
def run(
    name: Annotated[str | None, typer.Argument(metavar="[CLASS]", help="One class. Default: all.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go, and delete nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end; exit 1 unless it succeeded.")] = False,
    as_json: Json = False,
) -> None:
    """Start a run now and print its task's id; --wait says what it came to."""
    from tenure.cli.frame import database
    from tenure.cli.retention import start
    from tenure_records.kinds import RECORDS_RETENTION, RecordsRetention
    from tenure_records.retention import get_retention

    if name is not None:
        with database() as connection:
            get_retention(connection, name)
    start(RECORDS_RETENTION, RecordsRetention(class_name=name, dry_run=dry_run), wait=wait, as_json=as_json)


def _report(policy: Policy, *, as_json: bool) -> None:
    if as_json:
        print_json(_document(policy))
    else:
        say(f"{policy.class_name}: {_sentence(policy)}")


def _document(policy: Policy) -> dict[str, Any]:
    return {"class": policy.class_name, "keep_days": policy.keep_days, "keep_newest": policy.keep_newest}


def _sentence(policy: Policy) -> str:
    bounds = []
    if policy.keep_days is not None:
        bounds.append(f"{policy.keep_days:.15g} days after the last change")
    if policy.keep_newest is not None:
        bounds.append(f"the {policy.keep_newest} made last")
    return ", and only ".join(bounds) or "for ever"
