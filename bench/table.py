"""The one table that the bench prints, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.figures import Figure, Sample


def show(console: Console, figures: Sequence[Figure], conditions: dict[str, Any]) -> None:
    """Ours, theirs and their ratio on one line; conditions below."""
    table = Table(title="Tenure beside its comparators (median of the repeats, range in brackets)")
    for name in ("part", "figure"):
        table.add_column(name, overflow="fold")
    table.add_column("Tenure", justify="right")
    table.add_column("comparator", overflow="fold")
    table.add_column("its figure", justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("aim", overflow="fold")
    table.add_column("", overflow="fold")
    part = ""
    for one in figures:
        if part and one.part != part:
            table.add_section()
        part = one.part
        ratio = f"{one.ratio:.2f} ×" if one.ratio is not None else ""
        reached = {None: "", True: "reached", False: "missed"}[one.reached]
        theirs = _sample(one.theirs, one.unit) if one.theirs else ""
        notes = ", ".join(said for said in (reached, one.conditions) if said)
        table.add_row(one.part, one.what, _sample(one.ours, one.unit), one.against, theirs, ratio, one.aim, notes)
    console.print(table)
    console.print("; ".join(f"{name} {value}" for name, value in conditions.items()), highlight=False)


def as_json(figures: Sequence[Figure], conditions: dict[str, Any]) -> str:
    return json.dumps({"conditions": conditions, "figures": [one.plain() for one in figures]}, indent=2)


def _sample(sample: Sample, unit: str) -> str:
    if len(sample.values) == 1:
        return f"{_number(sample.median)} {unit}"
    return f"{_number(sample.median)} {unit} ({_number(min(sample.values))}–{_number(max(sample.values))})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
