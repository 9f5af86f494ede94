"""A file of schedules as what it asks for. Pure: the text is given.

origin = "billing"            # optional: whose schedules these are; several files need several
[schedules.nightly]
cron = "30 2 * * *"
zone = "Europe/Oslo"
steps = ["catalog.export", ["catalog.audit", { kind = "catalog.count", params = { deep = true } }]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tenure.model.definitions.spec import ScheduleSpec
from tenure.model.definitions.trees import LARGEST, Path, Tree, read_json, read_toml
from tenure.model.errors import ScheduleInvalid, UsageError, shortened
from tenure.model.requests import check_text

ORIGIN = "file"
ORIGIN_BYTES = 100
NAMED = 200  # characters of a path in a message


def _read_yaml(text: str) -> Tree:
    from tenure.model.definitions.yamls import read_yaml  # many processes know schedules, few read files

    return read_yaml(text)


_READERS = {".toml": read_toml, ".yaml": _read_yaml, ".yml": _read_yaml, ".json": read_json}
# Said as they are; of others pydantic's sentence is completed by what was found.
_SELF_EXPLAINING = ("value_error", "missing", "extra_forbidden", "too_short", "string_too_long")


@dataclass(frozen=True)
class Wanted:
    """Schedules by name, and whose they are."""

    origin: str
    specs: tuple[ScheduleSpec, ...]


def read(name: str, text: str) -> Wanted:
    """The schedules of a file called `name`. Raises ScheduleInvalid: file, line where the format tells, field, value."""
    suffix = name[name.rfind(".") :].lower() if "." in name else ""
    if suffix not in _READERS:
        raise ScheduleInvalid(f"{shortened(name, NAMED)}: a file of schedules ends in .toml, .yaml, .yml or .json")
    if len(text.encode(errors="replace")) > LARGEST:
        raise ScheduleInvalid(f"{shortened(name, NAMED)}: larger than 1 MiB")
    try:
        return _wanted(_READERS[suffix](text))
    except ScheduleInvalid as error:
        raise ScheduleInvalid(f"{shortened(name, NAMED)}: {error}") from None


def _wanted(tree: Tree) -> Wanted:
    root = tree.value
    if not isinstance(root, dict):
        raise ScheduleInvalid("it holds no table: give [schedules.NAME] for each schedule")
    unknown = [key for key in root if key not in ("origin", "schedules")]
    if unknown:
        raise _refusal(tree, (unknown[0],), "unknown; a file has origin and schedules")
    origin, schedules = root.get("origin", ORIGIN), root.get("schedules")
    if not isinstance(origin, str) or not 1 <= len(origin.encode(errors="replace")) <= ORIGIN_BYTES:
        raise _refusal(tree, ("origin",), f"text of 1 to {ORIGIN_BYTES} bytes")
    try:
        check_text(origin=origin)
    except UsageError as error:
        raise _refusal(tree, ("origin",), str(error)) from None
    if schedules is None:  # a file that was cut off must not prune all
        raise ScheduleInvalid(
            "it names no schedules: give [schedules.NAME] for each, or an empty table `schedules` for none"
        )
    if not isinstance(schedules, dict):
        raise _refusal(tree, ("schedules",), "give a table with one table for each schedule, by name")
    return Wanted(origin, tuple(_spec(tree, name, body) for name, body in schedules.items()))


def _spec(tree: Tree, name: str, body: Any) -> ScheduleSpec:
    path: Path = ("schedules", name)
    if not isinstance(body, dict):
        raise _refusal(tree, path, "give a table: cron or every, and steps")
    if "name" in body:
        raise _refusal(tree, (*path, "name"), "a schedule is called by its table: [schedules.NAME]")
    try:
        return ScheduleSpec.model_validate({**body, "name": name})
    except ValidationError as error:
        problems = error.errors(include_url=False)
        first = problems[0]
        more = f" (and {len(problems) - 1} more in this schedule)" if len(problems) > 1 else ""
        raise _refusal(tree, (*path, *first["loc"]), f"{_said(first)}{more}") from None


def _said(problem: Any) -> str:
    text = shortened(str(problem["msg"]).removeprefix("Value error, "), 300)
    if problem["type"] == "missing":
        return "is missing"
    if problem["type"] == "extra_forbidden":
        return "no such field"
    if problem["type"] in _SELF_EXPLAINING or isinstance(problem["input"], dict | list):
        return text
    return f"{text}, not {shortened(problem['input'], 40)!r}"


def _refusal(tree: Tree, path: Path, said: str) -> ScheduleInvalid:
    line = tree.line(path)
    return ScheduleInvalid(f"{f'line {line}, ' if line else ''}{_place(tree, path)}: {said}")


def _place(tree: Tree, path: Path) -> str:
    """A path as people count: schedules.nightly, step 2, kind; in a group of several step 2.1."""
    names = [shortened(part, 80) for part in path if isinstance(part, str)]
    if len(path) < 4 or path[2] != "steps":
        return ".".join(names)
    group = tree.value["schedules"][path[1]]["steps"][path[3]]
    number = ".".join(str(part + 1) for part in path[3 : 5 if isinstance(group, list) else 4] if isinstance(part, int))
    return ", ".join([".".join(names[:2]), f"step {number}", *names[3:]])
