"""What another scheduler's entries say, as ours. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.model.definitions.reading import Wanted


@dataclass(frozen=True)
class Taken:
    """The schedules, and one line for each thing that could not be carried over and does no harm."""

    wanted: Wanted
    notes: tuple[str, ...] = ()
