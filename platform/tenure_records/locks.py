"""The class lock: shared by everybody who writes objects or values, exclusive for who changes the definitions.

So a write sees all of the old definitions or all of the new. That takes a transaction, or the lock would be gone with its
own statement, and READ COMMITTED: in a stricter one everything is read as it was before the wait. Lock order: class lock → class row → object rows by id →
computed rows by id → task. Held to the end of the caller's transaction; nobody may take it after a row lock.
"""

from __future__ import annotations

from sqlalchemy import Connection, TextClause, text

from tenure.model.errors import UsageError
from tenure.store.advisory import RECORD_CLASSES, within

_LEVEL = "current_setting('transaction_isolation')"
_SHARE = text(f"select true, {_LEVEL} from pg_advisory_xact_lock_shared(:key)")
_TRY_SHARE = text(f"select got, {_LEVEL} from pg_try_advisory_xact_lock_shared(:key) got")
_TAKE = text(f"select true, {_LEVEL} from pg_advisory_xact_lock(:key)")
_TRY_TAKE = text(f"select got, {_LEVEL} from pg_try_advisory_xact_lock(:key) got")
_LEVELS = ("read committed", "read uncommitted")  # two names of one

# What follows must be a statement of its own: one that waited for the lock inside would read the snapshot it took
# before the wait.


def share(connection: Connection, class_id: int) -> None:
    """Wait until no definition change of the class is open, and let none begin. Raises UsageError, see `_lock`."""
    _lock(connection, _SHARE, class_id)


def try_share(connection: Connection, class_id: int) -> bool:
    """`share` without waiting; False when a definition change holds the lock or waits for it, or for such a transaction."""
    try:
        return _lock(connection, _TRY_SHARE, class_id)
    except UsageError:
        return False


def take(connection: Connection, class_id: int) -> None:
    """Wait until no write of the class is open, and let none begin. Raises UsageError, see `_lock`."""
    _lock(connection, _TAKE, class_id)


def try_take(connection: Connection, class_id: int) -> bool:
    """`take` without waiting; False when somebody writes in the class. Raises UsageError, see `_lock`."""
    return _lock(connection, _TRY_TAKE, class_id)


def autocommits(connection: Connection) -> bool:
    """Whether each statement is a transaction of its own."""
    driver = connection.connection.dbapi_connection
    return driver is not None and bool(driver.autocommit)


def _lock(connection: Connection, statement: TextClause, class_id: int) -> bool:
    """Raises UsageError for a connection in AUTOCOMMIT, and for a transaction in which the lock would protect nothing."""
    if autocommits(connection):
        raise UsageError("records are changed in a transaction: this connection is in AUTOCOMMIT")
    got, level = connection.execute(statement, {"key": within(RECORD_CLASSES, class_id)}).one()
    if level not in _LEVELS:
        raise UsageError(
            f"records are changed in READ COMMITTED, and this transaction is {level.upper()}: begin it with "
            "execution_options(isolation_level='READ COMMITTED')"
        )
    return bool(got)
