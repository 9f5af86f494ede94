"""`tenure records show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.output import Json, plain, print_fields

if TYPE_CHECKING:
    from tenure_records import Object


def add_to(app: typer.Typer) -> None:
    app.command("show")(show)


def show(
    name: Annotated[str, typer.Argument(metavar="CLASS", help="The class.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The object's key.")],
    computed: Annotated[bool, typer.Option("--computed", help="With the computed fields.")] = False,
    as_json: Json = False,
) -> None:
    """Show one object, with --computed your personal fields too. Numbers are printed exactly as they are stored."""
    from tenure.cli.frame import database, initiator
    from tenure_records import get_object
    from tenure_records.computed import encode

    me = initiator() if computed else None
    with database() as connection:
        found = get_object(connection, name, key, include_computed=computed, personal=me)
    if as_json:
        # Not through Python's json: it has no exact numbers.
        print(encode({"class": name, **document(found)}))
        return
    print_fields({"key": found.key, "revision": found.revision, "updated": found.updated_at})
    print(f"data      {plain(encode(found.data))}")
    for line in cells(found).items():
        print(f"  {line[0]} = {plain(line[1])}")
    if found.computed is not None and found.computed.stale:
        print("  evaluated for this answer: the stored values are out of date")


def document(found: Object) -> dict[str, Any]:
    """What --json shows of an object: `computed` and `personal` where they were asked for."""
    shown: dict[str, Any] = {
        "key": found.key, "id": found.id, "revision": found.revision, "change_seq": found.change_seq,
        "updated_at": found.updated_at.isoformat().replace("+00:00", "Z"), "data": found.data,
    }  # fmt: skip
    if (shared := found.computed) is not None:
        shown["computed"] = {"values": shared.values, "errors": {**shared.errors}, "stale": shared.stale}
    if (own := found.personal) is not None:
        shown["personal"] = {"values": own.values, "errors": {**own.errors}}
    return shown


def cells(found: Object) -> dict[str, str]:
    """The computed fields as people read them, by name; an error's code beside the null that it explains."""
    from tenure_records.computed import encode

    made = {}
    for prefix, scope in (("", found.computed), ("personal.", found.personal)):
        for key, value in scope.values.items() if scope is not None else ():
            reason = f"  ({scope.errors[key]})" if scope is not None and key in scope.errors else ""
            made[prefix + key] = f"{encode(value)}{reason}"
    return made
