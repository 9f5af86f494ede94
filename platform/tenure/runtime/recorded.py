"""What an attempt records about single objects: in a transaction of its own connections, and only with a checkpoint.

Items committed without one would be left a second time by whoever does the page again. It is also what lets an attempt
know that an earlier one may have left items: then there is a checkpoint, and the claim says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Transaction

from tenure.model.errors import InvalidCheckpoint
from tenure.model.items import Item
from tenure.model.kinds import KindSpec
from tenure.model.records import Claimed
from tenure.store import items


@dataclass
class _Page:
    transaction: Transaction | None
    items: bool = False
    saved: bool = False


class Recorded:
    """One per attempt. `any`: whether something was recorded at all, committed or not."""

    def __init__(self, claimed: Claimed, spec: KindSpec, owns: Callable[[Connection], bool]) -> None:
        self._under = items.Under(claimed.activity_id, claimed.lease.task_id)
        self._kind = spec.name
        self._owns = owns
        # By connection: the transaction it is in, whether there are items in it, whether a checkpoint is. A rollback leaves
        # another transaction, and what was noted of the last one counts no more.
        self._pages: dict[Connection, _Page] = {}
        self.any = False

    def items(self, tx: Connection, found: Iterable[Item]) -> int:
        self._note(tx)
        return items.insert(tx, self._under, found)

    def items_from(self, tx: Connection, columns: Sequence[str], select: str, values: Mapping[str, Any]) -> int:
        self._note(tx)
        return items.insert_from(tx, self._under, columns, select, values)

    def count(self, tx: Connection, changes: Mapping[str, int]) -> None:
        self._note(tx)
        items.count(tx, self._under, changes)

    def saved(self, tx: Connection) -> None:
        """A checkpoint was written in this transaction."""
        self._page(tx).saved = True

    def check(self, tx: Connection) -> None:
        """Before a COMMIT. Raises InvalidCheckpoint: there are items in it that no checkpoint stands for."""
        if not self._pages:
            return
        page = self._page(tx)
        del self._pages[tx]
        if page.items and not page.saved:
            raise InvalidCheckpoint(
                f"{self._kind}: items are committed with the checkpoint of their page: call attempt.checkpoint in the same transaction"
            )

    def _note(self, tx: Connection) -> None:
        if not self._owns(tx):
            raise InvalidCheckpoint(
                f"{self._kind}: items are written on a connection of the attempt, which its lease fences"
            )
        self.any = self._page(tx).items = True

    def _page(self, tx: Connection) -> _Page:
        page = self._pages.get(tx)
        if page is None or page.transaction is not tx.get_transaction():
            page = self._pages[tx] = _Page(tx.get_transaction())
        return page
