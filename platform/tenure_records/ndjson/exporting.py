"""Writing a class as newline-delimited JSON: its own line first, then one per object, in bounded memory.

All of it is of one snapshot. Data is the text that PostgreSQL keeps, so every number has every digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from sqlalchemy import Connection

from tenure_records import classes
from tenure_records.computed import JsonValue, encode
from tenure_records.ndjson import header
from tenure_records.reading import get_objects

PAGE: Final = 500  # objects evaluated at a time
# JSON text holds no control character of its own, so these two never occur in it, and COPY escapes nothing.
_COPY: Final = r"""copy (select '{{"key": ' || to_json(key)::text || ', "data": ' || data::text || '}}'
    from record_objects where class_id = {} order by id)
    to stdout (format csv, delimiter e'\x01', quote e'\x02', encoding 'UTF8')"""


@dataclass
class Exported:
    """How much was written."""

    objects: int = 0
    bytes: int = 0


def export(
    connection: Connection,
    class_name: str,
    out: BinaryIO,
    *,
    computed: bool = False,
    progress: Callable[[Exported], None] = lambda _: None,
) -> Exported:
    """Write the class to `out`. `computed` adds what its fields are, evaluated where they are stale; nothing is stored.

    `connection` is in no transaction. Raises NoSuchClass, before anything is written.
    """
    sink = _Sink(out, progress)
    reading = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    try:
        with reading.begin():
            class_id = classes.class_id(reading, class_name)
            out.write(f"{header.described(reading, class_name)}\n".encode())
            if computed:
                _evaluated(reading, class_name, sink)
            else:
                driver: Any = reading.connection.driver_connection
                with driver.cursor() as cursor:
                    cursor.copy_expert(_COPY.format(class_id), sink)
    finally:
        connection.execution_options(isolation_level="READ COMMITTED", postgresql_readonly=False)
    return sink.done


def _evaluated(connection: Connection, class_name: str, sink: _Sink) -> None:
    after = 0
    while page := get_objects(connection, class_name, after=after, limit=PAGE, include_computed=True, repair=False):
        after = page[-1].id
        for one in page:
            found = one.computed
            assert found is not None, "asked for"
            line: dict[str, JsonValue] = {
                "key": one.key,
                "data": one.data,
                "computed": {"values": found.values, "errors": {**found.errors}},
            }
            sink.write(f"{encode(line)}\n".encode())


class _Sink:
    """Counts lines on their way."""

    def __init__(self, out: BinaryIO, progress: Callable[[Exported], None]) -> None:
        self._out = out
        self._progress = progress
        self.done = Exported()

    def write(self, data: bytes) -> int:
        self._out.write(data)
        self.done.bytes += len(data)
        self.done.objects += data.count(b"\n")
        self._progress(self.done)
        return len(data)
