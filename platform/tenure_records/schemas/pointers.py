"""JSON Pointers (RFC 6901) as they stand in findings and messages: one line, never too long."""

from __future__ import annotations

from collections.abc import Iterable

from .bounds import POINTER_CHARACTERS


def pointer(path: Iterable[str | int]) -> str:
    """The pointer made of these tokens; past 255 characters it is cut and ends in an ellipsis."""
    made = "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in path)
    return made if len(made) <= POINTER_CHARACTERS else made[: POINTER_CHARACTERS - 1] + "…"
