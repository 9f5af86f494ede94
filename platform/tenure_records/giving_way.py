"""Pages that give way to writers: a writer may hold rows of several objects in any order, and waits for its next one.

So who writes a page waits for no row for long. It lets go of all it has and begins the page again, before PostgreSQL would
end a writer for the deadlock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from tenure.runtime.attempt import Attempt

T = TypeVar("T")

# Well below deadlock_timeout, 1 s as a rule.
_PATIENCE = text("set local lock_timeout = '200ms'")
_PAUSE: Final = 0.1  # s
_IN_THE_WAY: Final = ("55P03", "40P01")  # waited for too long; a deadlock


def giving_way(attempt: Attempt, write: Callable[[Connection], T]) -> T:
    """`write(tx)` in a fenced transaction, as often as it takes. Raises the stop there is, between two tries."""
    while True:
        try:
            with attempt.transaction() as tx:
                tx.execute(_PATIENCE)
                return write(tx)
        except DBAPIError as error:
            if getattr(error.orig, "pgcode", None) not in _IN_THE_WAY:
                raise
        attempt.check()
        if not attempt.sleep(_PAUSE):
            attempt.check()
