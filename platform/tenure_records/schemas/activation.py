"""Activating a schema. Strict needs valid evidence for every object, and holds writers up only to look at the newest.

(a) Under the class lock, briefly: the last change_seq given. Every write of the class up to it has committed. (b) Without
a lock: no object up to it lacks valid evidence. What it found valid can only become newer, never worse. (c) Under the
class lock again: the same for what changed since, and the activation. From its commit on every write is refused or valid.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from tenure.model import requests
from tenure.model.errors import UsageError, shortened
from tenure.model.records import Initiator
from tenure_records import classes, locks
from tenure_records.errors import ActivationRefused, ClassBusy, NoSuchSchema, RevisionConflict
from tenure_records.schemas import evidence
from tenure_records.schemas.revisions import Revision, open_revisions, retire
from tenure_records.schemas.writing import described

Begin = Callable[[], AbstractContextManager[Connection]]
Mode = Literal["advisory", "strict"]

_PATIENCE = text("set local lock_timeout = '5s'")
_TIMED_OUT = "55P03"
_HIGH_WATER = text("select last_value from record_change_seq")
# Pages that no vacuum has seen since they were filled are all looked through under the lock, unless they are summed up.
_SUM_UP = text("select brin_summarize_new_values('record_objects_changes')")
_ACTIVATE = text("""update schema_revisions set status = 'active', mode = :mode,
        activated_at = coalesce(activated_at, clock_timestamp()),
        activator_type = :type, activator_id = :id, activator_name = :name
    where id = :schema_id and status = :status""")


def activate(
    begin: Begin, class_name: str, *, mode: Mode, initiator: Initiator, revision: int | None = None
) -> Revision:
    """Make the proposed schema the active one (without a proposal: give the active one this mode).

    `begin` opens a transaction that commits when it is left, such as `engine.begin`; strict takes three. `revision` is
    the number expected. The schema that was active is retired. Raises NoSuchClass, NoSuchSchema, RevisionConflict;
    ActivationRefused with counts and samples when an object lacks valid evidence; ClassBusy after waiting 5 s for writers.
    """
    requests.check_initiator(initiator)
    if mode not in ("advisory", "strict"):
        raise UsageError(f"mode {shortened(mode)!r}: advisory or strict")
    with begin() as connection:
        class_id = classes.class_id(connection, class_name)
        schema = _chosen(connection, class_id, class_name, revision)
    above = 0
    if mode == "strict":
        above = _high_water(begin, class_name, class_id)
        with begin() as connection:
            _require(connection, class_name, schema, upto=above)
        _sum_up(begin)
    with begin() as connection:
        _take(connection, class_name, class_id)
        if _chosen(connection, class_id, class_name, schema.number).id != schema.id:
            raise _changed(class_name, schema.number)
        if mode == "strict":
            _require(connection, class_name, schema, above=above)
        if schema.status == "proposed":
            retire(connection, class_id, "active", initiator)
        here = {"schema_id": schema.id, "status": schema.status, "mode": mode, **vars(initiator)}
        if connection.execute(_ACTIVATE, here).rowcount != 1:
            raise _changed(class_name, schema.number)
        return open_revisions(connection, class_id)["active"]


def _high_water(begin: Begin, class_name: str, class_id: int) -> int:
    with begin() as connection:
        _take(connection, class_name, class_id)
        return int(connection.execute(_HIGH_WATER).scalar_one())


def _require(
    connection: Connection, class_name: str, schema: Revision, *, above: int = 0, upto: int = evidence.EVERYTHING
) -> None:
    tally, samples = evidence.tally(connection, schema.class_id, schema.id, above=above, upto=upto)
    if tally.complete:
        return
    shown = "; ".join(
        f"{shortened(one.key, 30)!r} is {one.standing} {described(one.findings, 1)}" for one in samples[:3]
    )
    raise ActivationRefused(
        f"schema revision {schema.number} of class {shortened(class_name, 30)!r} cannot become strict: {tally}: {shown}",
        tally,
        samples,
    )


def _take(connection: Connection, class_name: str, class_id: int) -> None:
    connection.execute(_PATIENCE)
    try:
        locks.take(connection, class_id)
    except DBAPIError as error:
        if getattr(error.orig, "pgcode", None) != _TIMED_OUT:
            raise
        raise ClassBusy(
            f"somebody has written in class {shortened(class_name)!r} for 5 s without committing: try again"
        ) from None


def _sum_up(begin: Begin) -> None:
    """Best effort: without it the last step takes longer, and is as right."""
    try:
        with begin() as connection:
            connection.execute(_PATIENCE)
            connection.execute(_SUM_UP)
    except DBAPIError:
        return


def _chosen(connection: Connection, class_id: int, class_name: str, number: int | None) -> Revision:
    there = open_revisions(connection, class_id)
    found = there.get("proposed") or there.get("active")
    if found is None:
        raise NoSuchSchema(f"class {shortened(class_name)!r} has no schema: `tenure records schema propose` makes one")
    if number is not None and found.number != number:
        raise _changed(class_name, number)
    return found


def _changed(class_name: str, number: int) -> RevisionConflict:
    return RevisionConflict(
        f"schema revision {number} of class {shortened(class_name)!r} is not the one to activate any more: look at it again"
    )
