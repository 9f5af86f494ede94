"""What the demo claims, as queries: nothing lost, nothing done twice, values as an undisturbed evaluation gives them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from tenure_records.computed import Evaluator, encode
from tenure_records.fields import list_fields

SAMPLE = 2_000

_COUNTS = text("""select
    (select count(*) from record_objects where class_id = :class_id),
    (select count(*) from record_objects o join object_computed_data c on c.class_id = o.class_id and c.object_id = o.id
      where o.class_id = :class_id and c.change_seq = o.change_seq and c.evaluation_revision = s.evaluation_revision)
    from class_computation_state s where s.class_id = :class_id""")
# Committed before the kill: not written again. After the last checkpoint: written by the second attempt only.
_TWICE = text("""select
    count(*) filter (where object_id <= :after and computed_at > :killed_at),
    count(*) filter (where object_id > :after and computed_at <= :killed_at)
    from object_computed_data where class_id = :class_id""")
_SAMPLE = text("""select o.data::text, c.values::text, c.errors = '{}'::jsonb from record_objects o
    join object_computed_data c on c.class_id = o.class_id and c.object_id = o.id
    where o.class_id = :class_id order by md5(o.id::text) limit :n""")
_AS_STORED = text("select cast(:values as jsonb)::text")


@dataclass(frozen=True)
class Verified:
    """Counted by the database. `wrong` is of a sample of objects evaluated again, value for value."""

    objects: int
    evaluated: int
    written_again: int
    written_early: int
    sampled: int
    wrong: int

    @property
    def holds(self) -> bool:
        return self.objects == self.evaluated and not (self.written_again or self.written_early or self.wrong)


def verify(connection: Connection, class_id: int, name: str, *, after: int, killed_at: datetime | None) -> Verified:
    """Count; `after` is the last object id of the last checkpoint before the kill."""
    objects, evaluated = connection.execute(_COUNTS, {"class_id": class_id}).one()
    again = early = 0
    if killed_at is not None:
        again, early = connection.execute(_TWICE, {"class_id": class_id, "after": after, "killed_at": killed_at}).one()
    evaluator = Evaluator(list_fields(connection, name))
    sampled = wrong = 0
    for body, values, clean in connection.execute(_SAMPLE, {"class_id": class_id, "n": SAMPLE}).all():
        sampled += 1
        now = evaluator.evaluate(body)
        stored = connection.execute(_AS_STORED, {"values": encode(now.values)}).scalar_one()
        wrong += stored != values or clean == bool(now.errors)
    return Verified(objects, evaluated, again, early, sampled, wrong)
