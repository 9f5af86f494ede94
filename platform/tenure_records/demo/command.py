"""`tenure demo` itself: load, define, reindex, kill, recover, verify, and a table of what the database says."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tenure.cli.frame import initiator
from tenure.cli.output import Json, note, print_json
from tenure.model.errors import TenureError, UsageError
from tenure.settings import Settings
from tenure_records import classes, fields
from tenure_records.demo import cities
from tenure_records.demo.stage import Stage, stage
from tenure_records.demo.verify import Verified, verify
from tenure_records.demo.watching import Story, follow
from tenure_records.load import Loaded, load

CLASS = "demo"


@dataclass(frozen=True)
class Filled:
    """The class as the demo loaded it."""

    class_id: int
    loaded: Loaded
    seconds: float
    task_id: Any


def demo(
    input: Annotated[
        Path | None, typer.Option("--input", metavar="FILE.ndjson", help="Your own objects instead of the cities.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="With --input: the member that is each object's key.")] = None,
    population: Annotated[int, typer.Option(help="Cities down to this population: 500, 1000, 5000 or 15000.")] = 500,
    lease: Annotated[
        float, typer.Option(min=2, max=60, help="s. Lease of the demo's workers: the time to recovery.")
    ] = 6.0,
    as_json: Json = False,
) -> None:
    """Load real data, reindex it, kill the worker half-way, and show that nothing is lost or done twice."""
    if population not in (500, 1000, 5000, 15000):
        raise UsageError(f"population {population}: 500, 1000, 5000 or 15000")
    console = Console(stderr=as_json, highlight=False)
    # Read before anything starts: what is wrong with it is said at once.
    lines = cities.cities(population) if input is None else cities.opened(input)
    try:
        with lines:
            fine = _play(lines, key or (cities.KEY if input is None else "key"), lease, console, as_json=as_json)
    except KeyboardInterrupt:
        note("stopped")
        raise
    raise typer.Exit(0 if fine else 1)


def _play(lines: BinaryIO, key: str, lease: float, console: Console, *, as_json: bool) -> bool:
    began = time.monotonic()
    with stage(lease) as here:
        usual = Settings.model_fields["lease_seconds"].default
        console.print(f"[bold]1[/] servers up, schema migrated; lease {lease:g} s (a worker's default is {usual:g} s)")
        filled = _fill(here, lines, key, console)
        console.print("[bold]3[/] two workers, one task: [bold]records.reindex[/]")
        here.start_workers("demo-a", "demo-b")
        story = follow(here, filled.task_id, console)
        if story.task["state"] != "succeeded":
            raise TenureError(f"the reindex ended {story.task['state']}: see {here.home}")
        with here.engine.connect() as connection:
            checked = verify(connection, filled.class_id, CLASS, after=story.after, killed_at=story.killed_at)
    _report(filled, story, checked, lease, time.monotonic() - began, console, as_json=as_json)
    return checked.holds and bool(story.task["counters"]["processed"] == checked.objects)


def _fill(here: Stage, lines: BinaryIO, key: str, console: Console) -> Filled:
    with here.engine.begin() as connection:
        if any(found.name == CLASS for found in classes.list_classes(connection)):
            classes.drop_class(connection, CLASS)
        class_id = classes.ensure_class(connection, CLASS).id
    size = lines.seek(0, 2)
    lines.seek(0)
    columns = (TextColumn("  load"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    began = time.monotonic()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("load", total=size)
        loaded = load(
            here.engine.begin, CLASS, lines, key=key,
            on_error="abort", progress=lambda done: progress.update(bar, completed=done),
        )  # fmt: skip
    seconds = time.monotonic() - began
    if loaded.refused:
        first = loaded.errors[0]
        raise UsageError(f"nothing was loaded: line {first.line}: {first.reason} ({loaded.refused} bad lines)")
    console.print(
        f"[bold]2[/] {loaded.put.created:,} objects loaded in {seconds:.1f} s; {len(cities.FIELDS)} computed fields defined"
    )
    change = None
    for name, op, paths, type_ in cities.FIELDS:
        with here.engine.begin() as connection:
            change = fields.define_field(
                connection, CLASS, name, op=op, paths=paths, result_type=type_, initiator=initiator()
            )
    assert change is not None
    assert change.task is not None
    return Filled(class_id, loaded, seconds, change.task.id)


def _report(
    filled: Filled, story: Story, checked: Verified, lease: float, seconds: float, console: Console, *, as_json: bool
) -> None:
    task = story.task
    rate = checked.objects / max(story.before_seconds + story.rest_seconds, 0.001)
    facts: dict[str, Any] = {
        "objects": checked.objects,
        "load_rows_per_second": round(filled.loaded.put.created / max(filled.seconds, 0.001)),
        "reindex_rows_per_second": round(rate),
        "lease_seconds": lease,
        "attempts": [{"how": a["how"], "token": a["token"]} for a in task["attempts"]],
        "killed": story.killed,
        "resumed_after_seconds": story.resumed_after,
        "committed_before_kill": story.committed,
        "processed": task["counters"]["processed"],
        "verified": {**asdict(checked), "holds": checked.holds},
        "seconds": round(seconds, 1),
    }
    if as_json:
        print_json(facts)
        return
    table = Table(title="what the database says", title_justify="left", box=None, show_header=False, padding=(0, 2))
    table.add_row("objects", f"{checked.objects:,}")
    table.add_row("reindexed", f"{facts['processed']:,} at {rate:,.0f} rows/s while somebody worked")
    table.add_row("attempts", ", ".join(f"token {a['token']}: {a['how']}" for a in facts["attempts"]))
    if story.killed:
        table.add_row(
            "recovery",
            f"lease {lease:g} s; resumed {story.resumed_after or 0:.1f} s after the kill, at {story.committed:,}",
        )
    else:
        table.add_row("recovery", "the reindex ended before half of it could be seen: give more objects")
    table.add_row("lost", f"{checked.objects - checked.evaluated} objects without a current value")
    table.add_row(
        "done twice", f"{checked.written_again} rows rewritten after the kill, {checked.written_early} written early"
    )
    table.add_row("values", f"{checked.sampled:,} objects evaluated again, {checked.wrong} differ")
    table.add_row("verdict", "[green]nothing lost, nothing done twice[/]" if checked.holds else "[red]WRONG[/]")
    console.print(table)
    console.print(f"{seconds:.0f} s in all")
