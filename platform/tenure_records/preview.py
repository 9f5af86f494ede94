"""Preview of a field that does not exist yet, over objects that do. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from tenure_records import classes
from tenure_records.computed import Evaluator, JsonValue, Operation, define

_SAMPLE = text("""select key, data::text from record_objects where class_id = :class_id
    and (cast(:keys as text[]) is null or key = any(:keys)) order by id limit :limit""")


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
    """The values a field would have for these objects, or the first `limit`. Raises NoSuchClass, InvalidDefinition."""
    field = define(key="preview", label="preview", operation=Operation(op, tuple(paths)), result_type=result_type)
    evaluator = Evaluator([field])
    here = {
        "class_id": classes.class_id(connection, class_name), "limit": limit, "keys": None if keys is None else list(keys),
    }  # fmt: skip
    found = [(key, evaluator.evaluate(body)) for key, body in connection.execute(_SAMPLE, here)]
    return [Previewed(key, seen.values["preview"], seen.errors.get("preview")) for key, seen in found]
