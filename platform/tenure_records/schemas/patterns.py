"""Patterns: the linear-time engine takes them or not, and what a character costs at worst follows from their size."""

from __future__ import annotations

from typing import Final

import jsonschema_rs

from tenure.model.errors import shortened
from tenure_records.errors import SchemaRefused

from .bounds import PATTERN_BYTES, PATTERNS_BYTES
from .pointers import pointer
from .references import Path

# Of the compiled pattern, and of what its matcher may keep between characters.
SIZES: Final = (PATTERN_BYTES, 256 * 1024)
OPTIONS: Final = jsonschema_rs.RegexOptions(*SIZES)
_SMALLEST: Final = 1024
# Measured with patterns made to be slow on strings made for them: 1,065 ns at 8 KiB, 3,300 at 64, 29,900 at 512.
_NS_PER_BYTE: Final = 0.06
_PLAIN_NS: Final = 600.0


class Patterns:
    """The patterns of one schema, each looked at once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._bytes = 0

    def cost(self, path: Path, pattern: str) -> float:
        """Nanoseconds per character at worst. Raises SchemaRefused."""
        size = self._known.get(pattern)
        if size is None:
            size = self._known[pattern] = _size(path, pattern)
            self._bytes += size
            if self._bytes > PATTERNS_BYTES:
                raise SchemaRefused(
                    f"the schema is refused at {pointer(path)}: its patterns are too large together; shorten repetitions"
                )
        return _PLAIN_NS + size * _NS_PER_BYTE


def _size(path: Path, pattern: str) -> int:
    """The compiled size, rounded up to a power of two or three quarters of one."""
    limit = _SMALLEST
    while not _fits(pattern, limit):
        limit *= 2
        if limit > PATTERN_BYTES:
            raise SchemaRefused(
                f"the schema is refused at {pointer(path)}: {shortened(pattern, 30)!r} is no pattern that can be matched "
                "in linear time; leave out look-around and back-references, shorten repetitions"
            )
    return limit * 3 // 4 if _fits(pattern, limit * 3 // 4) else limit


def _fits(pattern: str, limit: int) -> bool:
    try:
        jsonschema_rs.Draft202012Validator(
            {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions(limit, limit), offline=True
        )
    except jsonschema_rs.ValidationError:
        return False
    return True
