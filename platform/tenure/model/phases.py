"""The phases of one attempt, as its body goes through them. Pure: it writes nothing, and no name is so odd that it raises.

A phase is named by its path, `import/users` being a phase within `import`. Times are seconds of the caller's own clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tenure.model.errors import shortened

LIMIT = 200  # phases of one attempt: more are not recorded
LONGEST = 200  # characters of a path
UNNAMED = "work"  # where progress goes that names no phase
LARGEST = (1 << 63) - 1


class PhaseStatus(StrEnum):
    """What a phase can be."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"  # the task failed or was cancelled in it
    SKIPPED = "skipped"  # passed over, or not come to
    STOPPED = "stopped"  # its attempt ended in it, and the task goes on


@dataclass(eq=False, slots=True)
class Phase:
    """One phase. Who changes it says so in `changed`; who has written it takes that back first."""

    position: int
    path: str
    declared: bool
    status: PhaseStatus = PhaseStatus.PENDING
    done: int | None = None
    total: int | None = None
    message: str | None = None
    opened: float | None = None
    closed: float | None = None
    changed: bool = True

    def close(self, status: PhaseStatus, at: float) -> None:
        self.status, self.closed, self.changed = status, at, True

    def open(self, at: float) -> None:
        self.opened = at if self.opened is None else self.opened
        self.status, self.closed, self.changed = PhaseStatus.RUNNING, None, True


def clean(path: object) -> str:
    """A path as it may be stored and shown: printable, short, without empty parts."""
    try:
        said = str(path)
    except Exception:
        said = type(path).__name__
    said = said[: 4 * LONGEST].encode(errors="replace").decode()
    parts = (shortened(part, LONGEST) for part in said.split("/"))
    return "/".join(part for part in parts if part)[:LONGEST].rstrip("/") or UNNAMED


def lineage(path: str) -> list[str]:
    """The path and those it is within, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


class Plan:
    """The phases in the order of their declaration; what was not declared comes after, within its parent if it has one.

    At most one phase runs at a time, and those it is within.
    """

    def __init__(self, declared: Iterable[object] = ()) -> None:
        """A parent that is not declared itself comes just before its first child."""
        self._phases: dict[str, Phase] = {}
        self._current: Phase | None = None
        for path in declared:
            self._find(clean(path), declared=True)

    @property
    def phases(self) -> list[Phase]:
        return list(self._phases.values())

    @property
    def current(self) -> Phase | None:
        """What progress is about: the phase that runs, or the last that did; None before any was opened."""
        return self._current

    @property
    def first(self) -> str:
        """The path to open for progress that comes before any phase."""
        return next(iter(self._phases), UNNAMED)

    def enter(self, path: object, at: float) -> Phase:
        """Open this phase and what it is within; close what else runs as completed.

        Declared phases before a declared one that were never opened are skipped. One that is closed opens again. Past
        LIMIT the current phase stays.
        """
        name = clean(path)
        phase = self._find(name, declared=False)
        if phase.path != name:
            return phase
        line = set(lineage(name))
        for other in self._phases.values():
            if other.path in line:
                continue
            if other.status is PhaseStatus.RUNNING:
                other.close(PhaseStatus.COMPLETED, at)
            elif other.status is PhaseStatus.PENDING and phase.declared and self._before(other, phase):
                other.status, other.changed = PhaseStatus.SKIPPED, True
        for step in lineage(name):
            if self._phases[step].status is not PhaseStatus.RUNNING:
                self._phases[step].open(at)
        self._current = phase
        return phase

    def leave(self, phase: Phase, at: float, *, failed: bool = False) -> None:
        """Close this phase with all within it; the one it is within goes on. Nothing if it does not run."""
        if phase.status is not PhaseStatus.RUNNING:
            return
        ended = PhaseStatus.FAILED if failed else PhaseStatus.COMPLETED
        for other in self._phases.values():
            if other is phase or other.path.startswith(f"{phase.path}/"):
                if other.status is PhaseStatus.RUNNING:
                    other.close(ended, at)
                elif other.status is PhaseStatus.PENDING:
                    other.status, other.changed = PhaseStatus.SKIPPED, True
        parent = phase.path.rpartition("/")[0]
        self._current = self._phases.get(parent, phase)

    def _find(self, path: str, *, declared: bool) -> Phase:
        """The phase of this path, made with its parents if there is none; the current one where there are too many."""
        if path in self._phases:
            return self._phases[path]
        missing = [step for step in lineage(path) if step not in self._phases]
        if len(self._phases) + len(missing) > LIMIT:
            return self._current or next(reversed(self._phases.values()))
        for step in missing:
            self._phases[step] = Phase(len(self._phases), step, declared)
        return self._phases[path]

    def _before(self, one: Phase, other: Phase) -> bool:
        return one.declared and self._place(one) < self._place(other)

    def _place(self, phase: Phase) -> tuple[int, ...]:
        return tuple(self._phases[step].position for step in lineage(phase.path))


def in_order(paths: Sequence[str]) -> list[int]:
    """Indices of paths given by position, so that each comes after its parent and before what follows that."""
    at = {path: index for index, path in enumerate(paths)}
    places = [tuple(at.get(step, -1) for step in lineage(path)) for path in paths]
    return sorted(range(len(paths)), key=places.__getitem__)
