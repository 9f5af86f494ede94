"""Counts the work of one evaluation. A node is one token of a path, or one pair of values compared."""

from __future__ import annotations

from .errors import EVALUATION_LIMIT_EXCEEDED, FieldFailure
from .limits import MAX_FIELD_NODES, MAX_SCOPE_WORK


class Meter:
    """Nodes of the current field and work units of the scope; past either limit the field fails."""

    __slots__ = ("_field", "_scope")

    def __init__(self) -> None:
        self._field = 0
        self._scope = 0

    def begin(self, tokens: int) -> None:
        """Start a field. Its paths are charged whole, found or not, so the charge depends on the definition alone."""
        self._field = tokens
        self._scope += tokens
        if self._scope > MAX_SCOPE_WORK:
            raise FieldFailure(EVALUATION_LIMIT_EXCEEDED)

    def visit(self) -> None:
        """Charge one compared pair."""
        self._field += 1
        self._scope += 1
        if self._field > MAX_FIELD_NODES or self._scope > MAX_SCOPE_WORK:
            raise FieldFailure(EVALUATION_LIMIT_EXCEEDED)
