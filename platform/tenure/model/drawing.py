"""Draws docs/state-machines.md from the transition table: `python -m tenure.model.drawing FILE`.

Says nothing of its own about states: whatever is wrong on the page is wrong in `states.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tenure.model.states import ACTIVE, ARROWS, PENDING, TERMINAL, Arrow, Outcome, State

_START = "[*]"
_HEAD = """\
# The states of a task

<!-- Drawn from platform/tenure/model/states.py by `make docs`. Do not edit. -->

A task is *pending* ({pending}), then *active* ({active}), then *terminal* ({terminal}).
Nothing leaves a terminal state; a retry is a new task linked to the old one.
A `failed` task says why in its outcome: {outcomes}.
"""


def page() -> str:
    """The whole page, Markdown with a Mermaid drawing."""
    head = _HEAD.format(
        pending=_names(PENDING),
        active=_names(ACTIVE),
        terminal=_names(TERMINAL),
        outcomes=", ".join(map(_code, Outcome)),
    )
    return "\n".join([head, *_drawing(), "", "## Who may do what", "", *_table(), ""])


def _drawing() -> Iterator[str]:
    """One edge per pair of states, labelled with every verb that may take it."""
    edges: dict[tuple[str, str], list[str]] = {}
    for arrow in ARROWS:
        for edge in _edges(arrow):
            verbs = edges.setdefault(edge, [])
            if arrow.verb not in verbs:
                verbs.append(arrow.verb)
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield "    direction LR"
    for (source, target), verbs in edges.items():
        yield f"    {source} --> {target}: {', '.join(verbs)}"
    for state in _ordered(TERMINAL):
        yield f"    {state} --> {_START}"
    yield "```"


def _edges(arrow: Arrow) -> Iterator[tuple[str, str]]:
    for source in _ordered(arrow.sources) or [_START]:
        for target in _ordered(arrow.targets):
            # A verb that leads back to where it came from leaves each state as it is.
            if arrow.sources != arrow.targets or source == target:
                yield source, target


def _table() -> Iterator[str]:
    yield "| verb | from | to | by | guard |"
    yield "| --- | --- | --- | --- | --- |"
    for arrow in ARROWS:
        target = "unchanged" if arrow.sources == arrow.targets else _names(arrow.targets)
        yield f"| {_code(arrow.verb)} | {_names(arrow.sources) or '–'} | {target} | {arrow.by} | {arrow.guard} |"


def _ordered(states: Iterable[State]) -> list[str]:
    given = set(states)
    return [state.value for state in State if state in given]


def _names(states: Iterable[State]) -> str:
    return ", ".join(map(_code, _ordered(states)))


def _code(name: str) -> str:
    return f"`{name}`"


def main(arguments: list[str]) -> int:
    """Write the page to the one file named; the exit code."""
    if len(arguments) != 1:
        print("usage: python -m tenure.model.drawing FILE", file=sys.stderr)
        return 2
    Path(arguments[0]).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
