"""The class lock: shared by everybody who writes objects or values, exclusive for who changes the definitions.

So a write sees all of the old definitions or all of the new. Lock order: class lock → class row → object rows by id →
computed rows by id → task. Held to the end of the caller's transaction; nobody may take it after a row lock.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from tenure.store.advisory import RECORD_CLASSES, within

_SHARE = text("select pg_advisory_xact_lock_shared(:key)")
_TRY_SHARE = text("select pg_try_advisory_xact_lock_shared(:key)")
_TAKE = text("select pg_advisory_xact_lock(:key)")
_TRY_TAKE = text("select pg_try_advisory_xact_lock(:key)")

# What follows must be a statement of its own: one that waited for the lock inside would read the snapshot it took
# before the wait.


def share(connection: Connection, class_id: int) -> None:
    """Wait until no definition change of the class is open, and let none begin."""
    connection.execute(_SHARE, {"key": within(RECORD_CLASSES, class_id)})


def try_share(connection: Connection, class_id: int) -> bool:
    """`share` without waiting; False when a definition change holds the lock or waits for it."""
    return bool(connection.execute(_TRY_SHARE, {"key": within(RECORD_CLASSES, class_id)}).scalar_one())


def take(connection: Connection, class_id: int) -> None:
    """Wait until no write of the class is open, and let none begin."""
    connection.execute(_TAKE, {"key": within(RECORD_CLASSES, class_id)})


def try_take(connection: Connection, class_id: int) -> bool:
    """`take` without waiting; False when somebody writes in the class."""
    return bool(connection.execute(_TRY_TAKE, {"key": within(RECORD_CLASSES, class_id)}).scalar_one())
