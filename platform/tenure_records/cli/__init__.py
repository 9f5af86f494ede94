"""`tenure records …`: classes and objects here, fields and rebuilds beside."""

from __future__ import annotations

import typer

from tenure_records.cli import classes, fields, finding, loading, ndjson, objects, rebuilds, retention

app = typer.Typer(
    no_args_is_help=True, help="Classes of JSON objects and their computed fields.", rich_markup_mode=None
)
for part in (classes, loading, ndjson, objects, finding, rebuilds):
    part.add_to(app)
app.add_typer(fields.app, name="field")
app.add_typer(retention.app, name="retention")

__all__ = ["app"]
