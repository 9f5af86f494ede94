"""Lines of a file, numbered from 1, in bounded memory whatever the file holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

BOM: Final = b"\xef\xbb\xbf"
BLANK: Final = b" \t\r\n"


def numbered(lines: BinaryIO, most: int) -> Iterator[tuple[int, bytes | None, int]]:
    """(line number, line, bytes read for it); None for one longer than `most`, of which only a piece is held.

    Blank lines are numbered and passed over; a byte order mark before the first is dropped.
    """
    number = 0
    while line := lines.readline(most + 2):
        number += 1
        length = len(line)
        if number == 1:
            line = line.removeprefix(BOM)
        if len(line.rstrip(b"\r\n")) > most:
            while line and not line.endswith(b"\n"):
                line = lines.readline(most)
                length += len(line)
            yield number, None, length
        elif line.strip(BLANK):
            yield number, line.strip(BLANK), length
