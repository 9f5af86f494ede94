"""`tenure records field …`: the computed fields of a class, and with --personal one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cli.output import Json, note, print_json, print_table, say
from tenure_records.cli.rebuilds import Wait, follow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tenure.model.records import Initiator
    from tenure_records.computed import Definition

app = typer.Typer(
    no_args_is_help=True, help="Computed fields of a class: set, drop, list, preview.", rich_markup_mode="rich"
)
Class = Annotated[str, typer.Argument(metavar="CLASS", help="The class.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The field: a-z, 0-9 and _.")]
Op = Annotated[str, typer.Option("--op", metavar="OP", help="An operation, such as sum or first_non_null.")]
Path = Annotated[list[str], typer.Option("--path", metavar="POINTER", help="A JSON Pointer; may be repeated.")]
Type = Annotated[str, typer.Option("--type", metavar="TYPE", help="string, number, integer, boolean, object, array.")]
Revision = Annotated[
    int | None, typer.Option(min=0, help="Refuse unless the field is at this revision; 0: unless it is new.")
]
Personal = Annotated[
    bool, typer.Option("--personal", help="A field of your own: evaluated when you read, seen by nobody else.")
]


@app.command("set")
def set_field(
    name: Class,
    field: Name,
    op: Op,
    path: Path,
    result_type: Type,
    label: Annotated[str | None, typer.Option(help="What people read. Default: as before, or the name.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for. Default: as before, or none.")] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Keep the definition, show no values.")] = False,
    revision: Revision = None,
    personal: Personal = False,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Define a field, or change the one of that name; prints the id of the reindex task that this makes necessary."""
    from tenure.cli.frame import database, initiator
    from tenure_records import change_field, define_field

    given: dict[str, Any] = {"op": op, "paths": path, "result_type": result_type, "enabled": not disabled}
    given |= {k: v for k, v in {"label": label, "description": description}.items() if v is not None}
    if personal:
        _set_personal(name, field, revision, given, as_json=as_json)
        return
    with database() as connection:
        old = _found(connection, name, field)
        if revision == 0 or (old is None and revision is None):
            done = define_field(connection, name, field, initiator=initiator(), **given)
        else:
            expected = revision if revision is not None else old.revision if old else 0
            done = change_field(connection, name, field, revision=expected, initiator=initiator(), **given)
    if done.task is None:
        note("no value can differ: no reindex is needed")
    document = {"field": field, "revision": done.field.revision, "evaluation_revision": done.evaluation_revision}
    follow(done.task, document, wait=wait, as_json=as_json)


def _set_personal(name: str, field: str, revision: int | None, given: dict[str, Any], *, as_json: bool) -> None:
    from tenure.cli.frame import database, initiator
    from tenure_records import change_personal, define_personal

    me = initiator()
    with database() as connection:
        old = _found(connection, name, field, me)
        if revision == 0 or (old is None and revision is None):
            done = define_personal(connection, name, field, owner=me, **given)
        else:
            expected = revision if revision is not None else old.revision if old else 0
            done = change_personal(connection, name, field, owner=me, revision=expected, **given)
    if as_json:
        print_json({"field": field, "revision": done.revision, "personal": True})
    else:
        say(f"personal.{field} is at revision {done.revision}; it is evaluated when you read")


@app.command("drop")
def drop(
    name: Class,
    field: Name,
    revision: Revision = None,
    personal: Personal = False,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Drop a field; prints the id of the reindex task."""
    from tenure.cli.frame import database, initiator
    from tenure_records import drop_field, drop_personal

    me = initiator() if personal else None
    with database() as connection:
        if revision is None:
            old = _found(connection, name, field, me)
            revision = old.revision if old else 0
        if me is not None:
            drop_personal(connection, name, field, owner=me, revision=revision)
            connection.commit()
            if as_json:
                print_json({"field": field, "personal": True})
            return
        done = drop_field(connection, name, field, revision=revision, initiator=initiator())
    document = {"field": field, "evaluation_revision": done.evaluation_revision}
    follow(done.task, document, wait=wait, as_json=as_json)


@app.command("list")
def list_fields(name: Class, personal: Personal = False, as_json: Json = False) -> None:
    """List the fields of a class, or with --personal your own."""
    from tenure.cli.frame import database, initiator
    from tenure_records import list_fields as listed
    from tenure_records import list_personal

    with database() as connection:
        found = list_personal(connection, name, owner=initiator()) if personal else listed(connection, name)
    rows = [
        {
            "key": f.key, "label": f.label, "op": f.operation.op, "paths": list(f.operation.paths),
            "result_type": f.result_type, "description": f.description, "enabled": f.enabled, "revision": f.revision,
        }
        for f in found
    ]  # fmt: skip
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Field", "Op", "Paths", "Type", "Enabled", "#Revision"),
        ((r["key"], r["op"], r["paths"], r["result_type"], r["enabled"], r["revision"]) for r in rows),
        empty=f"class {name} has no computed fields{' of yours' if personal else ''}: "
        f"`tenure records field set{' --personal' if personal else ''}` defines one",
        gives_way={"Revision": 0, "Enabled": 0, "Paths": 12},
    )


@app.command("preview")
def preview(
    name: Class,
    op: Op,
    path: Path,
    result_type: Type,
    key: Annotated[list[str] | None, typer.Option("--key", help="Objects to show. Default: the first ten.")] = None,
    data: Annotated[str | None, typer.Option("--data", metavar="JSON", help="Data to try it on instead.")] = None,
    as_json: Json = False,
) -> None:
    """Show what a field would be, without defining it."""
    from tenure.cli.frame import database
    from tenure.model.errors import UsageError
    from tenure_records import preview_data, preview_field
    from tenure_records.computed import encode

    if key and data is not None:
        raise UsageError("give --key or --data, not both")
    with database() as connection:
        if data is not None:
            found = [preview_data(connection, data, op=op, paths=path, result_type=result_type)]
        else:
            found = preview_field(connection, name, op=op, paths=path, result_type=result_type, keys=key)
    if as_json:
        print(encode([{"key": one.key, "value": one.value, "error": one.error} for one in found]))
        return
    for one in found:
        say(f"{one.key or '--data'}  {encode(one.value)}" + (f"  ({one.error})" if one.error else ""))


def _found(connection: Connection, name: str, field: str, owner: Initiator | None = None) -> Definition | None:
    from tenure_records import list_fields as listed
    from tenure_records import list_personal

    fields = listed(connection, name) if owner is None else list_personal(connection, name, owner=owner)
    return next((one for one in fields if one.key == field), None)
