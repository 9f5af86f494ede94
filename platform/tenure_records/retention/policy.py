"""The policy of a class: its objects go when they have not changed for so long, or when enough newer ones were made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from tenure_records import classes, locks
from tenure_records.errors import InvalidClass

MOST_DAYS: Final = 36_500

_ONE = text("select id, name, keep_days, keep_newest from record_classes where id = :id")
_KEPT = text("""select id, name, keep_days, keep_newest from record_classes
    where id >= :after and (keep_days is not null or keep_newest is not null) order by id""")
_SET = text("""update record_classes set keep_days = :days, keep_newest = :newest, revision = revision + 1,
    updated_at = clock_timestamp() where id = :id""")


@dataclass(frozen=True)
class Policy:
    """None: no bound. `keep_days`: since an object's last change. `keep_newest`: so many, those made last."""

    class_id: int
    class_name: str
    keep_days: float | None
    keep_newest: int | None


def get_retention(connection: Connection, class_name: str) -> Policy:
    """The policy of one class. Raises NoSuchClass."""
    return of_class(connection, classes.class_id(connection, class_name))


def of_class(connection: Connection, class_id: int) -> Policy:
    """`get_retention` by id. Raises NoSuchClass."""
    row = connection.execute(_ONE, {"id": class_id}).first()
    if row is None:
        raise classes.dropped(class_id)
    return Policy(*row)


def bounded(connection: Connection, after: int = 0) -> list[Policy]:
    """The classes that do not keep everything, from an id on."""
    return [Policy(*row) for row in connection.execute(_KEPT, {"after": after})]


def set_retention(
    connection: Connection, class_name: str, *, keep_days: float | None, keep_newest: int | None
) -> Policy:
    """Say how long the objects of a class are kept; both None: for ever. Raises NoSuchClass, InvalidClass."""
    if keep_days is not None and not (math.isfinite(keep_days) and 0 < keep_days <= MOST_DAYS):
        raise InvalidClass(f"keep_days: {keep_days:.15g} is refused: more than 0, at most {MOST_DAYS} days")
    if keep_newest is not None and not 0 <= keep_newest < 2**63:
        raise InvalidClass(f"keep_newest: {keep_newest} is refused: 0 or more")
    class_id = classes.class_id(connection, class_name)
    locks.take(connection, class_id)
    if connection.execute(_SET, {"id": class_id, "days": keep_days, "newest": keep_newest}).rowcount != 1:
        raise classes.dropped(class_id)
    return of_class(connection, class_id)
