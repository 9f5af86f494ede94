"""`tenure records show`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tenure.cli.output import Json, plain, print_fields


def add_to(app: typer.Typer) -> None:
    app.command("show")(show)


def show(
    name: Annotated[str, typer.Argument(metavar="CLASS", help="The class.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The object's key.")],
    computed: Annotated[bool, typer.Option("--computed", help="With the computed fields.")] = False,
    as_json: Json = False,
) -> None:
    """Show one object. Numbers are printed exactly as they are stored."""
    from tenure.cli.frame import database
    from tenure_records import get_object
    from tenure_records.computed import encode

    with database() as connection:
        found = get_object(connection, name, key, include_computed=computed)
    if as_json:
        document: dict[str, Any] = {
            "class": name, "key": found.key, "id": found.id, "revision": found.revision,
            "change_seq": found.change_seq, "updated_at": found.updated_at.isoformat().replace("+00:00", "Z"),
            "data": found.data,
        }  # fmt: skip
        if found.computed is not None:
            values, errors = found.computed.values, found.computed.errors
            document["computed"] = {"values": values, "errors": {**errors}, "stale": found.computed.stale}
        # Not through Python's json: it has no exact numbers.
        print(encode(document))
        return
    print_fields({"key": found.key, "revision": found.revision, "updated": found.updated_at})
    print(f"data      {plain(encode(found.data))}")
    if found.computed is not None:
        for field, value in found.computed.values.items():
            reason = f"  ({found.computed.errors[field]})" if field in found.computed.errors else ""
            print(f"  {field} = {plain(encode(value))}{reason}")
        if found.computed.stale:
            print("  evaluated for this answer: the stored values are out of date")
