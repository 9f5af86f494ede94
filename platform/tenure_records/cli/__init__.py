"""`tenure records …`: classes and objects here, fields and rebuilds beside."""

from __future__ import annotations

import typer

from tenure_records.cli import classes, fields, finding, loading, ndjson, objects, rebuilds, retention, schemas

app = typer.Typer(
    no_args_is_help=True, help="Classes of JSON objects, their computed fields and schemas.", rich_markup_mode="rich"
)
for part in (classes, loading, ndjson, objects, finding, rebuilds):
    part.add_to(app)
app.add_typer(fields.app, name="field")
app.add_typer(retention.app, name="retention")
app.add_typer(schemas.app, name="schema")

__all__ = ["app"]
