"""Judging every class by its active schema again: which there are, and asking for the scan of each."""

from __future__ import annotations

from sqlalchemy import Connection, text

from tenure.model.records import Initiator
from tenure_records.errors import NoSuchClass, NoSuchSchema
from tenure_records.schemas.validation import revalidate

SYSTEM = Initiator("system", "records.revalidation", "records.revalidation")
_ACTIVE = text("""select c.id, c.name from record_classes c where c.id > :after
    and exists (select 1 from schema_revisions r where r.class_id = c.id and r.status = 'active') order by c.id""")


def with_active_schema(connection: Connection, after: int) -> list[tuple[int, str]]:
    """(id, name) of the classes with an active schema, by id, above `after`."""
    return [(row[0], row[1]) for row in connection.execute(_ACTIVE, {"after": after})]


def ask(connection: Connection, class_name: str) -> bool:
    """Ask for a scan of one class, in the caller's transaction. False: one is under way, or its schema is gone."""
    try:
        return revalidate(connection, class_name, initiator=SYSTEM).created
    except (NoSuchClass, NoSuchSchema):
        return False
