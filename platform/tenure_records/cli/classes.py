"""`tenure records classes`."""

from __future__ import annotations

import typer

from tenure.cli.output import Json, print_json, print_table


def add_to(app: typer.Typer) -> None:
    app.command("classes")(classes)


def classes(as_json: Json = False) -> None:
    """List classes with their objects, fields, and the state of their computed values."""
    from tenure.cli.frame import database
    from tenure_records import list_classes, list_fields
    from tenure_records.classes import count_objects

    with database() as connection:
        rows = [
            {
                "name": found.name,
                "objects": count_objects(connection, found.id),
                "fields": [field.key for field in list_fields(connection, found.name)],
                "evaluation_revision": found.evaluation_revision,
                "rebuild_status": found.rebuild_status,
                "active_task_id": found.active_task_id,
                "last_error": found.last_error,
            }
            for found in list_classes(connection)
        ]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("Class", "#Objects", "Fields", "#Evaluation", "Status", "Last error"),
        ((r["name"], r["objects"], r["fields"], r["evaluation_revision"], r["rebuild_status"], r["last_error"])
         for r in rows),
        empty="no classes yet: `tenure records load CLASS FILE.ndjson` makes one",
        gives_way={"Evaluation": 0, "Fields": 8},
    )  # fmt: skip
