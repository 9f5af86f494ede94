"""Asking for a scan: the row, and the task that does it, in the caller's transaction."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from sqlalchemy import Connection, text

from tenure import client
from tenure.model.records import Initiator, Submitted
from tenure.store import settings
from tenure_records import classes, locks
from tenure_records.kinds import SCHEMA_VALIDATION, SchemaValidation
from tenure_records.schemas.revisions import Revision, chosen

# A scan somebody has asked to stop is none to wait for.
_RUNNING = text("""select t.id from schema_scans s join tasks t on t.id = s.task_id
    where s.id = :scan_id and t.finished_at is null and not exists (select 1 from task_stops p where p.task_id = t.id)""")
_UPPER = text("select coalesce(max(id), 0) from record_objects where class_id = :class_id")
_SCAN = text("""insert into schema_scans (schema_id, task_id, mode, upper_id)
    values (:schema_id, uuidv7(), :mode, :upper) returning id, task_id""")
_NEWEST = text("update schema_revisions set scan_id = :scan_id where id = :schema_id and status <> 'retired'")


def impact(connection: Connection, class_name: str, *, initiator: Initiator, revision: int | None = None) -> Submitted:
    """Judge the objects of a class by its proposed schema; what published evidence covers is not judged again.

    A scan of it under way is answered instead (`created` tells). `revision` is the number the proposal is expected to
    have. Raises NoSuchClass, NoSuchSchema, RevisionConflict.
    """
    return _scan(connection, class_name, "proposed", "impact", initiator, revision)


def revalidate(
    connection: Connection, class_name: str, *, initiator: Initiator, revision: int | None = None
) -> Submitted:
    """`impact`, for the active schema."""
    return _scan(connection, class_name, "active", "revalidation", initiator, revision)


def _scan(
    connection: Connection,
    class_name: str,
    status: Literal["proposed", "active"],
    mode: Literal["impact", "revalidation"],
    initiator: Initiator,
    number: int | None,
) -> Submitted:
    class_id = classes.class_id(connection, class_name)
    locks.take(connection, class_id)
    schema = chosen(connection, class_id, class_name, status, number)
    running: UUID | None = connection.execute(_RUNNING, {"scan_id": schema.scan_id}).scalar()
    if running is not None:
        return Submitted(running, False)
    # Exact under the exclusive class lock: nobody has an uncommitted object of this class.
    upper = int(connection.execute(_UPPER, {"class_id": class_id}).scalar_one())
    scan_id, task_id = connection.execute(_SCAN, {"schema_id": schema.id, "mode": mode, "upper": upper}).one()
    connection.execute(_NEWEST, {"schema_id": schema.id, "scan_id": scan_id})
    params = _params(connection, class_name, schema, scan_id, mode, upper)
    labels = {"class": class_name, "schema": str(schema.number)}
    return client.create(connection, SCHEMA_VALIDATION, params, initiator=initiator, labels=labels, task_id=task_id)


def _params(
    connection: Connection,
    class_name: str,
    schema: Revision,
    scan_id: int,
    mode: Literal["impact", "revalidation"],
    upper: int,
) -> SchemaValidation:
    return SchemaValidation(
        class_id=schema.class_id, class_name=class_name, schema_id=schema.id, number=schema.number, scan_id=scan_id,
        mode=mode, upper=upper, object_bytes=schema.object_bytes,
        batch_rows=int(settings.value(connection, settings.VALIDATION_ROWS)),
        batch_bytes=max(int(settings.value(connection, settings.VALIDATION_BYTES)), schema.object_bytes),
    )  # fmt: skip
