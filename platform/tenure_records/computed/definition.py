"""Definitions of computed fields. `define` is the only way to make one that the evaluator may trust."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tenure.model.errors import shortened

from .errors import InvalidDefinition
from .limits import MAX_DESCRIPTION_BYTES, MAX_LABEL_BYTES, MAX_PATHS, SEMANTICS_VERSION
from .operations import CATALOGUE, RESULT_TYPES
from .pointer import parse

_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_MEMBERS: Final = frozenset({"op", "paths"})


@dataclass(frozen=True)
class Operation:
    """An operation of the catalogue and the JSON Pointers it reads, in order."""

    op: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Definition:
    """One computed field, valid by construction when it comes from `define`."""

    key: str
    label: str
    operation: Operation
    result_type: str
    description: str = ""
    enabled: bool = True
    revision: int = 1
    semantics_version: int = SEMANTICS_VERSION


def define(
    *,
    key: str,
    label: str,
    operation: Operation | Mapping[str, object],
    result_type: str,
    description: str = "",
    enabled: bool = True,
    revision: int = 1,
    semantics_version: int = SEMANTICS_VERSION,
) -> Definition:
    """A checked definition; `operation` may be a mapping {op, paths} as it comes from JSON.

    Raises InvalidDefinition naming the member and the reason.
    """
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidDefinition(
            f"key: {shortened(_printable(key))} must be 1 to 63 of a-z, 0-9 and _, the first a letter"
        )
    _check_text("label", label, least=1, most=MAX_LABEL_BYTES)
    _check_text("description", description, least=0, most=MAX_DESCRIPTION_BYTES)
    if type(enabled) is not bool:
        raise InvalidDefinition(f"enabled: {shortened(enabled)} must be true or false")
    if type(revision) is not int or revision < 1:
        raise InvalidDefinition(f"revision: {shortened(revision)} must be a whole number from 1")
    if type(semantics_version) is not int or semantics_version != SEMANTICS_VERSION:
        raise InvalidDefinition(
            f"semantics_version: {shortened(semantics_version)} is unknown; use {SEMANTICS_VERSION}"
        )
    checked = _operation(operation)
    _check_result_type(checked.op, result_type)
    return Definition(key, label, checked, result_type, description, enabled, revision, semantics_version)


def _check_text(member: str, text: object, *, least: int, most: int) -> None:
    if not isinstance(text, str):
        raise InvalidDefinition(f"{member}: must be a string")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidDefinition(f"{member}: holds half a surrogate pair; send the whole character") from None
    if "\0" in text:
        raise InvalidDefinition(rf"{member}: holds the character \u0000; remove it")
    if not least <= size <= most:
        raise InvalidDefinition(f"{member}: has {size} bytes; {least} to {most} are allowed")


def _operation(given: object) -> Operation:
    if isinstance(given, Operation):
        given = {"op": given.op, "paths": given.paths}
    if not isinstance(given, Mapping) or set(given) != _MEMBERS:
        raise InvalidDefinition("operation: must be an object with exactly the members op and paths")
    op, paths = given["op"], given["paths"]
    if not isinstance(op, str) or op not in CATALOGUE:
        raise InvalidDefinition(f"op: {shortened(_printable(op))} is unknown; use one of {', '.join(CATALOGUE)}")
    if not isinstance(paths, list | tuple):
        raise InvalidDefinition("paths: must be a list of JSON Pointers")
    least = CATALOGUE[op].least_paths
    if not least <= len(paths) <= MAX_PATHS:
        raise InvalidDefinition(f"paths: {op} takes {least} to {MAX_PATHS} paths, not {len(paths)}")
    for path in paths:
        parse(path)
    if len(set(paths)) != len(paths):
        raise InvalidDefinition("paths: the same JSON Pointer is given twice")
    return Operation(op, tuple(paths))


def _check_result_type(op: str, result_type: object) -> None:
    if not isinstance(result_type, str) or result_type not in RESULT_TYPES:
        known = ", ".join(sorted(RESULT_TYPES))
        raise InvalidDefinition(f"result_type: {shortened(_printable(result_type))} is unknown; use one of {known}")
    allowed = CATALOGUE[op].result_types
    if result_type not in allowed:
        raise InvalidDefinition(f"result_type: {op} gives {' or '.join(sorted(allowed))}, not {result_type}")


def _printable(value: object) -> str:
    # A message must be printable everywhere, and half a surrogate pair is not.
    return str(value).encode("utf-8", "backslashreplace").decode()
