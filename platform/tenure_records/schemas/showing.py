"""How the schemas of a class stand: revisions, the newest scan of each open one, and what its evidence says now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from tenure_records import classes
from tenure_records.schemas import evidence
from tenure_records.schemas.evidence import Sample, Tally
from tenure_records.schemas.revisions import Revision, list_revisions, open_revisions

_SCAN = text("""select s.task_id, s.mode, t.state, s.created_at, s.published_at, c.processed, c.total
    from schema_scans s left join tasks t on t.id = s.task_id left join task_checkpoints c on c.task_id = s.task_id
    where s.id = :scan_id""")


@dataclass(frozen=True)
class ScanState:
    """One scan. `state` is its task's, None once that was purged; published or not, it says what counts."""

    task_id: UUID
    mode: str
    state: str | None
    created_at: datetime
    published_at: datetime | None
    processed: int | None
    total: int | None


@dataclass(frozen=True)
class Standing:
    """One open revision: how the objects stand by it, some that are not valid, and its newest scan."""

    revision: Revision
    tally: Tally
    samples: list[Sample]
    scan: ScanState | None


@dataclass(frozen=True)
class SchemaState:
    """The revisions of a class, newest first (the last hundred), and how it stands by the open ones."""

    class_name: str
    revisions: list[Revision]
    open: list[Standing]


def show_schema(connection: Connection, class_name: str) -> SchemaState:
    """The schemas of a class. Counts the objects, so it takes its time for a large class. Raises NoSuchClass."""
    class_id = classes.class_id(connection, class_name)
    revisions = list_revisions(connection, class_name)
    newest_first = sorted(open_revisions(connection, class_id).values(), key=lambda one: -one.number)
    standing = [_standing(connection, class_id, one) for one in newest_first]
    return SchemaState(class_name, revisions, standing)


def _standing(connection: Connection, class_id: int, revision: Revision) -> Standing:
    tally, samples = evidence.tally(connection, class_id, revision.id)
    row = connection.execute(_SCAN, {"scan_id": revision.scan_id}).first()
    return Standing(revision, tally, samples, None if row is None else ScanState(*row))
