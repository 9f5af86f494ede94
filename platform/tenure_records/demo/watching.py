"""Follows the demo's reindex: kills its worker half-way, and shows the lease running out and the next attempt resuming."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sqlalchemy import text

from tenure import client
from tenure.model.states import TERMINAL, State
from tenure_records.demo.stage import Stage

PACE = 0.05  # s between looks
_NOW = text("select clock_timestamp()")


@dataclass
class Story:
    """What happened, as the database told it."""

    task: dict[str, Any]
    killed: str | None = None
    killed_at: datetime | None = None
    first_token: int | None = None
    after: int = 0
    committed: int = 0
    resumed_after: float | None = None
    before_seconds: float = 0.0
    rest_seconds: float = 0.0


def follow(stage: Stage, task_id: UUID, console: Console) -> Story:
    """Watch to the end. Raises KeyboardInterrupt at a stop."""
    columns = (
        TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}"), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=False) as progress:
        bar = progress.add_task("reindex", total=None, said="waiting for a worker")
        story = Story({})
        claimed_at = 0.0
        while True:
            task = story.task = _look(stage, task_id)
            lease, counters = task["lease"], task["counters"]
            if lease and not claimed_at:
                claimed_at = time.monotonic()
            progress.update(bar, completed=counters["processed"] or 0, total=counters["total"], said=_said(story))
            if State(task["state"]) in TERMINAL:
                return _ended(story)
            if story.killed is None and lease and _half(counters):
                story.before_seconds = time.monotonic() - claimed_at
                _kill(stage, story, console)
            elif story.killed and story.resumed_after is None and lease and lease["token"] != story.first_token:
                _resumed(story, console)
            if not stage.watcher.sleep(PACE):
                raise KeyboardInterrupt


def _look(stage: Stage, task_id: UUID) -> dict[str, Any]:
    with stage.engine.connect() as connection:
        return client.get(connection, task_id)


def _half(counters: dict[str, Any]) -> bool:
    return bool(counters["total"]) and (counters["processed"] or 0) * 2 >= counters["total"]


def _kill(stage: Stage, story: Story, console: Console) -> None:
    lease = story.task["lease"]
    story.first_token = lease["token"]
    node = stage.kill(lease["worker"])
    # Read again now that nobody can write any more: what the dead worker had committed.
    task = story.task = _look(stage, story.task["id"])
    story.killed = node
    story.after = task["checkpoint"]["cursor"]["after"]
    story.committed = task["counters"]["processed"]
    with stage.engine.connect() as connection:
        story.killed_at = connection.execute(_NOW).scalar_one()
    console.print(
        f"  [bold red]SIGKILL[/] to {node} at {story.committed:,} objects; its lease (token {story.first_token}) "
        f"runs for another {float(lease['seconds_left']):.1f} s"
    )


def _resumed(story: Story, console: Console) -> None:
    lease = story.task["lease"]
    assert story.killed_at is not None
    story.resumed_after = (lease["acquired"] - story.killed_at).total_seconds()
    console.print(
        f"  [bold green]resumed[/] from the checkpoint at {story.committed:,} with token {lease['token']}, "
        f"{story.resumed_after:.1f} s after the kill"
    )


def _said(story: Story) -> str:
    lease = story.task["lease"]
    if story.task["state"] == "queued":
        return "waiting for a worker"
    if story.killed and story.resumed_after is None and lease:
        return f"nobody works; lease expires in {max(0.0, float(lease['seconds_left'])):.1f} s"
    return f"attempt {story.task['attempt']}, token {lease['token']}" if lease else ""


def _ended(story: Story) -> Story:
    last = story.task["attempts"][-1]
    story.rest_seconds = (last["ended_at"] - last["created_at"]).total_seconds()
    return story
