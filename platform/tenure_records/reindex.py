"""The steps of a reindex: read a page, evaluate it, store it. The kind `records.reindex` strings them together.

A page is read and evaluated without any lock or transaction, since evaluating is most of the work. What makes that safe
is at the store: under the shared class lock the definitions are still those that were used; an object that changed
meanwhile has been materialised by its own writer, with a higher change_seq, and `values` never replaces a higher one.
So nothing has to be read again, and no object row is locked or written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from tenure.model.items import Item, Outcome
from tenure_records import locks, scope, values
from tenure_records.kinds import Reindex

# A page is cut by rows before it is read; the rows of the next one follow from the size of the last.
PAGE_CHARACTERS: Final = 8 * 1024 * 1024
_FIRST_ROWS: Final = 100

# The values of an object that was written since the change are of this revision already, and right. A repair does not
# take their word for it.
_PAGE = text("""select o.id, o.change_seq, c.object_id is not null,
        case when c.evaluation_revision = :revision and c.change_seq = o.change_seq and not :repair then null
             else o.data::text end
    from record_objects o
    left join object_computed_data c on c.class_id = o.class_id and c.object_id = o.id
    where o.class_id = :class_id and o.id > :after and o.id <= :upper order by o.id limit :rows""")
_TOTAL = text("select count(*) from record_objects where class_id = :class_id and id > :after and id <= :upper")
_MINE = text("""select 1 from class_computation_state
    where class_id = :class_id and evaluation_revision = :revision and active_task_id = :task_id""")
_READY = text("""update class_computation_state set rebuild_status = 'ready', last_error = null, updated_at = clock_timestamp()
    where class_id = :class_id and evaluation_revision = :revision and active_task_id = :task_id""")


@dataclass(frozen=True)
class Page:
    """One page, evaluated. `present` have stored values already; `absent` have none; `last` is the last id read."""

    last: int
    rows: int
    characters: int
    present: Sequence[values.Value] = ()
    absent: Sequence[values.Value] = ()


def total(connection: Connection, params: Reindex, after: int) -> int:
    """How many objects are left to evaluate after an id."""
    here = {"class_id": params.class_id, "after": after, "upper": params.upper}
    return int(connection.execute(_TOTAL, here).scalar_one())


def definitions(connection: Connection, params: Reindex, task_id: UUID) -> scope.Scope | None:
    """The scope of this rebuild; None when a newer change, another rebuild or the end of the class superseded it."""
    now = scope.current_or_none(connection, params.class_id)
    return now if now is not None and is_mine(connection, params, task_id) and now.revision == params.revision else None


def read(connection: Connection, params: Reindex, by: scope.Scope, after: int, rows: int) -> Page | None:
    """Read and evaluate the page after an id; None when there is nothing left."""
    here = {
        "class_id": params.class_id, "revision": params.revision, "repair": params.repair, "after": after,
        "upper": params.upper, "rows": rows,
    }  # fmt: skip
    found = connection.execute(_PAGE, here).all()
    if not found:
        return None
    if by.empty:
        return Page(found[-1][0], len(found), 0)
    evaluate = by.evaluator.evaluate
    present: list[values.Value] = []
    absent: list[values.Value] = []
    characters = 0
    for object_id, change_seq, stored, body in found:
        if body is not None:
            characters += len(body)
            (present if stored else absent).append(values.Value(object_id, change_seq, evaluate(body)))
    return Page(found[-1][0], len(found), characters, present, absent)


def missing(connection: Connection, class_id: int) -> bool:
    """Whether the class is gone: there is nothing to do."""
    return scope.current_or_none(connection, class_id) is None


def with_errors(page: Page) -> int:
    """On how many objects of the page a definition fails."""
    return sum(1 for one in (*page.present, *page.absent) if one.evaluation.errors)


def items(page: Page, class_name: str, room: int) -> list[Item]:
    """An item for each object of `with_errors`, at most `room`.

    It names the fields by the codes of their errors, and is no error of the run: such an error is what the definitions
    say of this object, stored with its values and shown to every reader.
    """
    wrong = (one for one in (*page.present, *page.absent) if one.evaluation.errors)
    return [
        Item("evaluated_with_errors", class_name, str(one.object_id),
             outcomes=[Outcome(code, "field", key) for key, code in one.evaluation.errors.items()])
        for one in islice(wrong, room)
    ]  # fmt: skip


def next_rows(params: Reindex, page: Page | None) -> int:
    """How many rows to read next, so that a page of large objects still fits into memory."""
    if page is None:
        return min(_FIRST_ROWS, params.page_rows)
    fitting = page.rows * PAGE_CHARACTERS // max(page.characters, 1)
    return max(1, min(params.page_rows, fitting))


def is_mine(connection: Connection, params: Reindex, task_id: UUID) -> bool:
    """Whether the class is still at this rebuild's revision, and this rebuild's task is the one that counts."""
    here = {"class_id": params.class_id, "revision": params.revision, "task_id": task_id}
    return connection.execute(_MINE, here).first() is not None


def store(connection: Connection, params: Reindex, task_id: UUID, by: scope.Scope, after: int, page: Page) -> bool:
    """Write one page in the caller's fenced transaction. False: superseded, and nothing was written."""
    locks.share(connection, params.class_id)
    if not is_mine(connection, params, task_id):
        return False
    if by.empty:
        values.clear(connection, params.class_id, after, page.last)
    values.update(connection, params.class_id, params.revision, page.present)
    values.upsert(connection, params.class_id, params.revision, page.absent)
    return True


def finish(connection: Connection, params: Reindex, task_id: UUID) -> bool:
    """The last step: the class is ready, if it is still this rebuild's to say so. Done twice it says the same."""
    locks.share(connection, params.class_id)
    if not is_mine(connection, params, task_id):
        return False
    values.sweep(connection, params.class_id, params.revision)
    here = {"class_id": params.class_id, "revision": params.revision, "task_id": task_id}
    return connection.execute(_READY, here).rowcount == 1
