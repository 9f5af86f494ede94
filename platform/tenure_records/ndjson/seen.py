"""Which keys a file has named, and in which line: on disk beyond a few megabytes, so a file may be of any length."""

from __future__ import annotations

import sqlite3
from types import TracebackType
from typing import Self


class Seen:
    """A private table that is gone when it is closed."""

    def __init__(self) -> None:
        self._table = sqlite3.connect("", isolation_level=None)  # the empty name: a temporary file of its own
        for setting in ("journal_mode = off", "synchronous = off", "cache_size = -16384"):
            self._table.execute(f"pragma {setting}")
        self._table.execute("create table seen (key text primary key, line integer not null) without rowid")
        self._table.execute("begin")

    def first(self, key: str, line: int) -> int:
        """The line that named the key first: this one, unless there was another."""
        row = self._table.execute("insert into seen values (?, ?) on conflict do nothing returning line", (key, line))
        if row.fetchone() is not None:
            return line
        return int(self._table.execute("select line from seen where key = ?", (key,)).fetchone()[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._table.close()
