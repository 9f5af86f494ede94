"""Writes docs/settings.md from the settings' own descriptions: `python tools/settings_page.py FILE`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from tenure.settings import Settings
from tenure.store.settings import CATALOGUE

HEAD = """\
# Settings

<!-- Written from platform/tenure/settings.py and platform/tenure/store/settings.py by `make docs`. Do not edit. -->

## At the start: environment variables

Read and checked once, when a process starts. A wrong one is named in one line and ends the process with exit code 2.
An empty one counts as not set. Values of URLs are never printed.
"""
RUNTIME = """\
## While processes run: `tenure settings list` and `tenure settings set`

Kept in the database. Whoever reads one sees a change at its next read.
"""


def _start() -> Iterator[str]:
    yield "| variable | default | meaning |"
    yield "| --- | --- | --- |"
    for name, field in Settings.model_fields.items():
        yield f"| `TENURE_{name.upper()}` | {_default(field)} | {field.description} |"


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None or value == "":
        return "–"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _runtime() -> Iterator[str]:
    yield "| name | default | unit | meaning |"
    yield "| --- | --- | --- | --- |"
    for setting in CATALOGUE.values():
        yield f"| `{setting.name}` | `{setting.default:.15g}` | {setting.unit} | {setting.reason} |"


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_start(), "", RUNTIME, *_runtime(), ""])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/settings_page.py FILE")
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
