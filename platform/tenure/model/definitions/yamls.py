"""YAML 1.2's core schema through PyYAML's parser: `no` is text, `1:30` too, only `true` and `false` are truth values. Pure.

Not imported before it is needed: it takes a tenth of a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

from tenure.model.definitions.trees import Path, Tree
from tenure.model.errors import ScheduleInvalid, shortened

VALUES = 100_000  # in a file, what aliases repeat counted
DEEPEST = 60


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
    line = text.split("\n")[mark.line : mark.line + 1] if mark else []
    return any(re.search(r"[:,\[-]\s+[*@]", part) for part in line)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own attribute, replaced)


def _resolve_core(target: type[yaml.resolver.BaseResolver]) -> None:
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
_resolve_core(_Loader)


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


def write_yaml(value: Any) -> str:
    """Text that `read_yaml` answers the same value for."""
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=1000)
    return text


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Between double quotes where a reader would fold a line break of another alphabet into a space."""
    style = '"' if any(break_ in text for break_ in "\r\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
_resolve_core(_Dumper)  # beside YAML 1.1's: whatever any reader would take for a number is quoted
