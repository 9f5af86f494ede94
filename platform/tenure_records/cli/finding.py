"""`tenure records find`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.output import Json, note, print_table
from tenure.model.errors import UsageError, shortened
from tenure_records.cli.objects import cells, document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenure_records import Filter, Sort

_WHERE = """FIELD OP VALUE in one argument, such as 'people gt 1000'; at most two, and both must hold. FIELD: a field of the class, or
personal.NAME for one of yours. OP: eq ne lt le gt ge
in prefix contains null failed. VALUE: text as it is, a number, true or false, JSON; for `in` a JSON array."""


def add_to(app: typer.Typer) -> None:
    app.command("find")(find)


def find(
    name: Annotated[str, typer.Argument(metavar="CLASS", help="The class.")],
    where: Annotated[list[str] | None, typer.Option("--where", metavar="FILTER", help=_WHERE)] = None,
    sort: Annotated[
        list[str] | None,
        typer.Option("--sort", metavar="FIELD[:desc]", help="Order; may be given twice. Default: by id."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Objects at most.")] = 100,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where the page before ended.")] = None,
    evaluate: Annotated[
        int, typer.Option(metavar="N", min=0, help="Objects without current values to evaluate at most.")
    ] = 10_000,
    as_json: Json = False,
) -> None:
    """Find objects by their computed fields. Right also while the class is being rebuilt."""
    from tenure.cli.frame import database, initiator
    from tenure_records import find_objects, list_fields, list_personal
    from tenure_records.computed import encode

    me = initiator()
    with database() as connection:
        types = {field.key: field.result_type for field in list_fields(connection, name) if field.enabled}
        own = list_personal(connection, name, owner=me)
        types |= {f"personal.{field.key}": field.result_type for field in own if field.enabled}
        filters = [_filter(one, types) for one in where or ()]
        found = find_objects(
            connection, name, where=filters, order_by=[_sort(one) for one in sort or ()], after=after, limit=limit,
            evaluate_at_most=evaluate, personal=me,
        )  # fmt: skip
    if as_json:
        # Not through Python's json: it has no exact numbers.
        print(encode({"class": name, "objects": [document(one) for one in found.objects], "after": found.after}))
        return
    shown = sorted(types)
    rows = [(one.key, cells(one)) for one in found.objects]
    print_table(
        ("Key", *shown),
        ((key, *(values[field] for field in shown)) for key, values in rows),
        empty="no object found" if found.after is None else "no object found yet",
        gives_way=dict.fromkeys(reversed(shown), 12),
    )
    if found.after is not None:
        note(f"more may follow: --after {found.after}")


def _filter(given: str, types: Mapping[str, str]) -> Filter:
    from tenure_records import Filter

    parts = given.split(None, 2)
    if len(parts) < 2:
        raise UsageError(f"--where {shortened(given)!r}: write FIELD OP VALUE, such as 'people gt 1000'")
    field, op = parts[:2]
    value = parts[2] if len(parts) == 3 else "true" if op in ("null", "failed") else ""
    if types.get(field) == "string" and op not in ("in", "null", "failed"):
        return Filter(field, op, value)
    return Filter(field, op, _json(value, field))


def _json(value: str, field: str) -> object:
    from tenure_records.computed import InvalidDocument, decode

    try:
        return decode(value)
    except (InvalidDocument, UnicodeError):
        raise UsageError(f"--where {field}: {shortened(value)!r} is no number, true, false or JSON") from None


def _sort(given: str) -> Sort:
    from tenure_records import Sort

    field, _, way = given.partition(":")
    if way not in ("", "asc", "desc"):
        raise UsageError(f"--sort {shortened(given)!r}: write FIELD or FIELD:desc")
    return Sort(field, way == "desc")
