"""`tenure limits`: how many tasks may run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.output import Json, print_json, print_table, say
from tenure.model.errors import UsageError

if TYPE_CHECKING:
    from tenure.store.limits import What

app = typer.Typer(
    no_args_is_help=True, help="How many tasks may run at once: list, set, remove.", rich_markup_mode="rich"
)
OfKind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Tasks of this kind.")]
InScope = Annotated[str | None, typer.Option("--scope", metavar="SCOPE", help="Tasks in this scope.")]
InEach = Annotated[
    str | None,
    typer.Option("--each-scope", metavar="KIND", help="A scope without a limit of its own, for tasks of this kind."),
]


@app.command("list")
def list_limits(as_json: Json = False) -> None:
    """List limits, who set them, and how many run."""
    from tenure.cli.frame import database
    from tenure.store import limits

    with database() as connection:
        rows = limits.listing(connection)
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Of", "Name", "#At most", "#Running", "#Declared", "Set by"),
        ((r["what"], r["name"], r["at_most"], r["running"], r["declared"], r["set_by"]) for r in rows),
        empty="no limits: as many run as the workers have slots",
        gives_way={"Declared": 0, "Set by": 8},
    )


@app.command("set")
def set_limit(
    at_most: Annotated[int, typer.Argument(metavar="N", min=0, help="So many at once; 0 lets nothing start.")],
    kind: OfKind = None,
    scope: InScope = None,
    each_scope: InEach = None,
    as_json: Json = False,
) -> None:
    """Set a limit: of all tasks together, or of a kind or scope. What runs goes on."""
    from tenure import limits
    from tenure.cli.frame import database, initiator

    what, name = _named(kind, scope, each_scope)
    with database() as connection:
        limits.put(connection, what, name, at_most, initiator=initiator())
    if as_json:
        print_json({"what": what, "name": name, "at_most": at_most})
    else:
        say(f"at most {at_most} at once: {_said(what, name)}")


@app.command()
def remove(kind: OfKind = None, scope: InScope = None, each_scope: InEach = None, as_json: Json = False) -> None:
    """Remove a limit that was set; what a kind declares holds again."""
    from tenure import limits
    from tenure.cli.frame import database

    what, name = _named(kind, scope, each_scope)
    with database() as connection:
        removed = limits.remove(connection, what, name)
    if as_json:
        print_json({"what": what, "name": name, "removed": removed})
    else:
        say(f"{'removed the limit' if removed else 'no limit was set'}: {_said(what, name)}")


def _named(kind: str | None, scope: str | None, each_scope: str | None) -> tuple[What, str]:
    if sum(one is not None for one in (kind, scope, each_scope)) > 1:
        raise UsageError("give one of --kind, --scope and --each-scope, or none for all tasks together")
    if kind is not None:
        return "kind", kind
    if scope is not None:
        return "scope", scope
    return ("each scope", each_scope) if each_scope is not None else ("global", "")


def _said(what: What, name: str) -> str:
    return {"global": "all tasks together", "each scope": f"in each scope, of kind {name}"}.get(what, f"{what} {name}")
