"""`tenure records schema …`: propose, look at the impact, activate, and see how the objects stand."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.output import Json, note, plain, print_fields, print_json, print_table, say
from tenure_records.cli.files import opened
from tenure_records.cli.rebuilds import follow

if TYPE_CHECKING:
    from tenure_records.schemas.evidence import Sample, Tally
    from tenure_records.schemas.revisions import Revision
    from tenure_records.schemas.showing import Standing

app = typer.Typer(
    no_args_is_help=True,
    help="JSON Schemas of a class: propose one, see which objects do not fit, make it hold.",
    rich_markup_mode="rich",
)
Class = Annotated[str, typer.Argument(metavar="CLASS", help="The class.")]
Expected = Annotated[int | None, typer.Option("--revision", min=0, help="Refuse unless this is its number.")]
Wait = Annotated[bool, typer.Option("--wait", help="Follow the scan to its end; exit 1 unless it succeeded.")]


class Mode(StrEnum):
    ADVISORY = "advisory"
    STRICT = "strict"


@app.command("propose")
def propose(
    name: Class,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The schema, as JSON; - reads stdin.")],
    revision: Annotated[
        int | None, typer.Option(min=0, help="Refuse unless this is the newest revision so far; 0: none.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Propose a schema (JSON Schema 2020-12 or draft-07), in place of an open proposal. It refuses nothing yet.

    From now on every write is judged by it too; `impact` judges what is there already.
    """
    from tenure.cli.frame import database, initiator
    from tenure_records import propose_schema

    with opened(file) as lines:
        body = _text(lines.read())
    with database() as connection:
        made = propose_schema(connection, name, body, initiator=initiator(), revision=revision)
    if as_json:
        print_json(_revision(made))
        return
    say(
        f"revision {made.number} is proposed: `tenure records schema impact {name} --wait` says which objects do not fit"
    )


@app.command("impact")
def impact(name: Class, revision: Expected = None, wait: Wait = False, as_json: Json = False) -> None:
    """Judge every object by the proposed schema, and print the task's id; what was judged already is not judged again."""
    from tenure_records import impact as ask

    _scan(ask, name, revision, wait=wait, as_json=as_json)


@app.command("revalidate")
def revalidate(name: Class, revision: Expected = None, wait: Wait = False, as_json: Json = False) -> None:
    """Judge every object by the active schema, and print the task's id."""
    from tenure_records import revalidate as ask

    _scan(ask, name, revision, wait=wait, as_json=as_json)


@app.command("activate")
def activate(
    name: Class,
    mode: Annotated[Mode, typer.Option(help="advisory counts what does not fit, strict refuses it.")],
    revision: Expected = None,
    as_json: Json = False,
) -> None:
    """Make the proposed schema the active one; without a proposal, give the active one this mode.

    strict needs evidence that every object fits, and exits with 1 when an object lacks it, saying how many and which.
    """
    from collections.abc import Iterator
    from contextlib import contextmanager

    from sqlalchemy import Connection

    from tenure.cli.frame import database, initiator
    from tenure_records import activate as make_active
    from tenure_records.errors import ActivationRefused

    with database() as connection:

        @contextmanager
        def begin() -> Iterator[Connection]:
            with connection.begin():
                yield connection

        try:
            made = make_active(begin, name, mode=mode.value, initiator=initiator(), revision=revision)
        except ActivationRefused as refused:
            note(str(refused))
            if as_json:
                print_json({"activated": False, **_tally(refused.tally), "samples": _samples(refused.samples)})
            else:
                _show_samples(refused.samples)
            raise typer.Exit(1) from None
    if as_json:
        print_json({"activated": True, **_revision(made)})
        return
    say(f"revision {made.number} is active, {made.mode}")


@app.command("show")
def show(name: Class, as_json: Json = False) -> None:
    """Show the revisions of a class, and how its objects stand by the open ones. Counts every object."""
    from tenure.cli.frame import database
    from tenure_records import show_schema

    with database() as connection:
        state = show_schema(connection, name)
    if as_json:
        print_json(
            {
                "class": name,
                "revisions": [_revision(one) for one in state.revisions],
                "open": [_standing(one) for one in state.open],
            }
        )
        return
    print_table(
        ("#Revision", "Status", "Mode", "Proposed", "By", "Activated", "Retired"),
        (
            (one.number, one.status, one.mode, one.proposed_at, one.proposer.name, one.activated_at, one.retired_at)
            for one in state.revisions
        ),
        empty=f"class {name} has no schema: `tenure records schema propose` makes one",
        gives_way={"By": 8, "Retired": 0},
    )
    for one in state.open:
        _show_standing(one)


def _scan(ask: Any, name: str, revision: int | None, *, wait: bool, as_json: bool) -> None:
    from tenure.cli.frame import database, initiator

    with database() as connection:
        made = ask(connection, name, initiator=initiator(), revision=revision)
    if not made.created:
        note("a scan by this schema is under way already: this is its task")
    follow(made, {"created": made.created}, wait=wait, as_json=as_json)


def _text(body: bytes) -> str:
    from tenure_records.errors import SchemaRefused

    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SchemaRefused(f"the schema is not UTF-8 at byte {error.start}") from None


def _show_standing(one: Standing) -> None:
    said = f"\nrevision {one.revision.number}, {one.revision.status}:"
    print(said)
    print_fields({"objects": one.tally.objects, **_tally(one.tally)})
    if one.scan is not None:
        seen = f", {one.scan.processed or 0} of {one.scan.total} objects" if one.scan.total is not None else ""
        counts = "its evidence counts" if one.scan.published_at else "its evidence does not count"
        print(f"last scan: task {one.scan.task_id} {one.scan.state or 'has been purged'}{seen}; {counts}")
    _show_samples(one.samples)


def _show_samples(samples: list[Sample] | Any) -> None:
    for sample in samples:
        found = "; ".join(f"{plain(one.pointer) or 'the top'}: {plain(one.keyword)}" for one in sample.findings)
        say(f"  {sample.key} is {sample.standing}{f' at {found}' if found else ''}")


def _tally(tally: Tally) -> dict[str, int]:
    return {
        "valid": tally.valid, "invalid": tally.invalid, "uninspectable": tally.uninspectable,
        "unscanned": tally.unscanned, "changed_since": tally.changed,
    }  # fmt: skip


def _samples(samples: Any) -> list[dict[str, Any]]:
    return [
        {
            "key": one.key,
            "standing": one.standing,
            "findings": [{"pointer": found.pointer, "keyword": found.keyword} for found in one.findings],
        }
        for one in samples
    ]


def _standing(one: Standing) -> dict[str, Any]:
    counts = {"revision": one.revision.number, "status": one.revision.status, "objects": one.tally.objects}
    return {**counts, **_tally(one.tally), "samples": _samples(one.samples), "scan": one.scan and vars(one.scan)}


def _revision(one: Revision) -> dict[str, Any]:
    fields = ("number", "status", "mode", "digest", "object_bytes", "proposed_at", "activated_at", "retired_at")
    people = {"proposer": vars(one.proposer), "activator": one.activator and vars(one.activator)}
    return {name: getattr(one, name) for name in fields} | people
