"""Preview of a field that does not exist yet, over objects that do, or over data that is nowhere. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from tenure.model.errors import UsageError
from tenure_records import classes
from tenure_records.computed import Definition, Evaluator, JsonValue, Operation, define
from tenure_records.documents import Data, checked_text

MOST: Final = 1_000

_FIRST = text("select key, data::text from record_objects where class_id = :class_id order by id limit :limit")
_NAMED = text("select key, data::text from record_objects where class_id = :class_id and key = any(:keys) order by id")
# As a stored object is evaluated: jsonb's spelling decides what is too large.
_STORED = text("select cast(:body as jsonb)::text")


@dataclass(frozen=True)
class Previewed:
    """What the field would be for one object; `error` is its code when the value is null for a reason."""

    key: str
    value: JsonValue
    error: str | None


def preview_field(
    connection: Connection,
    class_name: str,
    *,
    op: str,
    paths: Sequence[str],
    result_type: str,
    keys: Sequence[str] | None = None,
    limit: int = 10,
) -> list[Previewed]:
    """The values a field would have for these objects, or the first `limit`; keys that are missing are left out.

    Raises NoSuchClass, InvalidDefinition; UsageError for more than a thousand objects.
    """
    field = _field(op, paths, result_type)
    if not 0 <= (limit if keys is None else len(keys)) <= MOST:
        raise UsageError(f"a preview shows at most {MOST} objects")
    class_id = classes.class_id(connection, class_name)
    if keys is None:
        rows = connection.execute(_FIRST, {"class_id": class_id, "limit": limit})
    else:
        rows = connection.execute(_NAMED, {"class_id": class_id, "keys": list(keys)})
    evaluator = Evaluator([field])
    return [_previewed(evaluator, key, body) for key, body in rows]


def preview_data(connection: Connection, data: Data, *, op: str, paths: Sequence[str], result_type: str) -> Previewed:
    """The value a field would have for an object with this data; its key is blank. Raises InvalidDefinition, InvalidObject."""
    field = _field(op, paths, result_type)
    body = connection.execute(_STORED, {"body": checked_text(data)}).scalar_one()
    return _previewed(Evaluator([field]), "", body)


def _field(op: str, paths: Sequence[str], result_type: str) -> Definition:
    return define(key="preview", label="preview", operation=Operation(op, tuple(paths)), result_type=result_type)


def _previewed(evaluator: Evaluator, key: str, body: str) -> Previewed:
    seen = evaluator.evaluate(body)
    return Previewed(key, seen.values["preview"], seen.errors.get("preview"))
