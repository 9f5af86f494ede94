"""Text in a format that people write, as plain values with the lines they stand on. Pure.

TOML 1.0, JSON, and YAML 1.2's core schema: `no` is text, `1:30` too, only `true` and `false` are truth values.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from tenure.model.errors import ScheduleInvalid, shortened

LARGEST = 1 << 20  # bytes of a file
VALUES = 100_000  # in a file, what aliases repeat counted
DEEPEST = 60
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


def read_yaml(text: str) -> Tree:
    """Raises ScheduleInvalid naming the line. A key that stands twice is refused, and so is every tag."""
    try:
        root = yaml.compose(text, Loader=_Loader)
        lines: dict[Path, int] = {}
        return Tree(None if root is None else _Builder(lines).value(root, (), 0), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        hint = "; text that starts with * or @ is written in quotes" if _starts_special(text, mark) else ""
        raise ScheduleInvalid(f"{_at(mark)}not YAML: {shortened(error.problem, 100)}{hint}") from None
    except yaml.YAMLError:
        raise ScheduleInvalid("not YAML: it holds characters that YAML does not allow") from None
    except (RecursionError, ValueError):
        raise ScheduleInvalid("not YAML: nested too deeply, or a number too long") from None


def _at(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def _starts_special(text: str, mark: yaml.Mark | None) -> bool:
    if mark is None:
        return False
    line = (text.splitlines() or [""])[min(mark.line, text.count("\n"))] if text else ""
    return re.search(r"[:,\[-]\s+[*@]", line) is not None


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own attribute, replaced)


def resolve_core(target: type[yaml.resolver.BaseResolver]) -> None:
    """Let a loader or dumper know which plain text is no text in the core schema."""
    for tag, (form, first) in _PLAIN.items():
        target.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{form})\\Z"), first)


_PLAIN: dict[str, tuple[str, list[str]]] = {
    "null": (r"~|null|", ["~", "n", ""]),
    "bool": (r"true|false", ["t", "f"]),
    "int": (r"[-+]?[0-9]+", list("-+0123456789")),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+",
        list("-+.0123456789"),
    ),
}
resolve_core(_Loader)


class _Builder:
    """Builds plain values from nodes: a document of a few lines must not become millions of values."""

    def __init__(self, lines: dict[Path, int]) -> None:
        self._lines = lines
        self._left = VALUES

    def value(self, node: yaml.Node, path: Path, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem="too many or too deep values", problem_mark=node.start_mark)
        self._lines.setdefault(path, node.start_mark.line + 1)
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value(one, (*path, at), depth + 1) for at, one in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and kind in _SCALARS:
            return _SCALARS[kind](node.value)
        problem = f"tag {shortened(node.tag, 40)} is not supported"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)

    def _mapping(self, node: yaml.MappingNode, path: Path, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in made:
                said = "is there twice" if isinstance(key, yaml.ScalarNode) else "is no name"
                problem = f"key {shortened(key.value, 40)!r} {said}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            self._lines[(*path, key.value)] = key.start_mark.line + 1
            made[key.value] = self.value(value, (*path, key.value), depth + 1)
        return made


_SCALARS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "null": lambda _: None,
    "bool": lambda text: text == "true",
    "int": int,
    "float": float,
}
