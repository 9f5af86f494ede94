"""Text in a format that people write, as plain values; for YAML see `yamls`. Pure."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenure.model.errors import ScheduleInvalid, shortened

LARGEST = 1 << 20  # bytes of a file
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Tree:
    """The value, and where the format tells, the line of each part by its path."""

    value: Any
    lines: Mapping[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int | None:
        """Of the nearest part that is known."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path) if path else None


def read_toml(text: str) -> Tree:
    """Raises ScheduleInvalid naming line and column."""
    try:
        return Tree(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ScheduleInvalid(f"not TOML: {shortened(error, 160)}") from None
    except (RecursionError, ValueError):
        raise ScheduleInvalid("not TOML: nested too deeply, or a number too long") from None


def read_json(text: str) -> Tree:
    """Raises ScheduleInvalid naming line and column. A key that stands twice is refused."""
    try:
        return Tree(json.loads(text, object_pairs_hook=_once))
    except json.JSONDecodeError as error:
        said = f"line {error.lineno}, column {error.colno}: not JSON: {shortened(error.msg, 100)}"
        raise ScheduleInvalid(said) from None
    except (RecursionError, ValueError):
        raise ScheduleInvalid("not JSON: nested too deeply, or a number too long") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ScheduleInvalid(f"not JSON: key {shortened(key, 40)!r} is there twice")
        made[key] = value
    return made
