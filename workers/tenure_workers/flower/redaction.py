"""Cuts what a task was given and gave back. Our own events carry neither; those of a foreign producer or worker may."""

from __future__ import annotations

from typing import Any

from flower import events

CUT = ("args", "kwargs", "result", "traceback")


def without_content(event: dict[str, Any]) -> dict[str, Any]:
    """The event as Flower may keep it."""
    return {name: value for name, value in event.items() if name not in CUT}


def format_task(task: Any) -> Any:
    """For Flower's pages: a copy of the task, without its content."""
    for name in CUT:
        setattr(task, name, None)
    return task


class ContentFreeState(events.EventsState):
    """What Flower keeps in memory, and would save to disk. Its API and its search read from here, past `format_task`."""

    def event(self, event: dict[str, Any]) -> None:
        super().event(without_content(event))


def install() -> None:
    """Make Flower keep its state in ours. Call it before Flower starts; twice is harmless."""
    events.EventsState = ContentFreeState
