"""JSON Pointers (RFC 6901), parsed once per definition. Following one never fails: missing and null are both None."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from tenure.model.errors import shortened

from .document import JsonValue
from .errors import InvalidDefinition
from .limits import MAX_POINTER_BYTES, MAX_POINTER_TOKENS

Steps: TypeAlias = tuple[tuple[str, int], ...]
"""Per token: the member name, and the array index it means or -1 when it means none."""

# Nine digits are beyond any array a document of 1 MiB can hold.
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_BAD_ESCAPE = re.compile(r"~(?![01])")


def parse(pointer: object) -> Steps:
    """The steps of a pointer; the empty pointer is the whole document and has none.

    Raises InvalidDefinition: not a string, a character no document holds, longer than 512 bytes, more than 32 tokens, no leading slash, a bad
    escape, or the token `-`, which names an element that never exists. A token with a leading zero is a member
    name only: against an array it is missing.
    """
    if not isinstance(pointer, str):
        raise InvalidDefinition(f"paths: {shortened(pointer)} is not a string; write a JSON Pointer such as /name")
    if "\0" in pointer or any("\ud800" <= character <= "\udfff" for character in pointer):
        raise InvalidDefinition(
            "paths: a JSON Pointer holds a NUL character or half a surrogate pair; no document does"
        )
    shown = shortened(pointer)
    if len(pointer.encode()) > MAX_POINTER_BYTES:
        raise InvalidDefinition(f"paths: {shown} is longer than {MAX_POINTER_BYTES} bytes")
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise InvalidDefinition(f"paths: {shown} does not start with /")
    if _BAD_ESCAPE.search(pointer):
        raise InvalidDefinition(f"paths: {shown} holds a ~ that is neither ~0 nor ~1")
    tokens = pointer[1:].split("/")
    if len(tokens) > MAX_POINTER_TOKENS:
        raise InvalidDefinition(f"paths: {shown} has {len(tokens)} tokens; at most {MAX_POINTER_TOKENS} are allowed")
    if "-" in tokens:
        raise InvalidDefinition(f"paths: {shown} holds the token -, which names an element that never exists")
    return tuple(_step(token) for token in tokens)


def _step(token: str) -> tuple[str, int]:
    # ~1 first: the other order would read ~01 as a slash instead of ~1.
    name = token.replace("~1", "/").replace("~0", "~")
    return name, int(name) if _INDEX.fullmatch(name) else -1


def follow(document: JsonValue, steps: Steps) -> JsonValue:
    """The value the steps lead to; None when it is missing or null, which no operation tells apart."""
    for name, index in steps:
        if type(document) is dict:
            document = document.get(name)
        elif type(document) is list and 0 <= index < len(document):
            document = document[index]
        else:
            return None
    return document


def reader(paths: tuple[Steps, ...]) -> Callable[[JsonValue], list[JsonValue]]:
    """What gives, of a document, the value each path leads to.

    The way that all the paths share is gone once, and of the last steps no loop in Python is made: of most definitions
    that is all there is to do.
    """
    if not all(paths):
        return lambda document: [follow(document, steps) for steps in paths]
    shared = paths[0][:-1]
    if any(steps[:-1] != shared for steps in paths):
        return lambda document: [follow(document, steps) for steps in paths]
    lasts = tuple(steps[-1:] for steps in paths)
    names = tuple(steps[0][0] for steps in lasts)

    def read(document: JsonValue) -> list[JsonValue]:
        parent = follow(document, shared) if shared else document
        if type(parent) is dict:
            return list(map(parent.get, names))
        return [follow(parent, last) for last in lasts]

    return read
