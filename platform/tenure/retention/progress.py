"""How far a run has got, as its checkpoint holds it, and what it comes to. Shapes only."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel

from tenure.store.retention.pages import After, Page


class Cursor(BaseModel):
    """`done`: tables that are finished; `at`, `id`: where the walk over the one in hand is, `part` the partition it is in.

    `rows`, `partitions`: deleted so far, by table, or counted in a dry run. `kept_since`: when the oldest activity was
    made that is kept though it is old.
    """

    done: list[str] = []
    part: str = ""
    at: str = After().at
    id: UUID = After().id
    rows: dict[str, int] = {}
    partitions: dict[str, int] = {}
    kept_since: str | None = None

    @property
    def after(self) -> After:
        return After(self.at, self.id)

    def walked(self, table: str, page: Page, *, owner: bool) -> Cursor:
        """After one more page; `owner`: others are kept as long as what this walk keeps."""
        kept = page.held if owner and self.kept_since is None else self.kept_since
        moved = {"at": page.after.at, "id": page.after.id, "kept_since": kept}
        return self.counted(table, page.gone).model_copy(update=moved)

    def counted(self, table: str, rows: int, partitions: int = 0) -> Cursor:
        """With so many more rows, and whole partitions."""
        added = {}
        if rows:
            added["rows"] = {**self.rows, table: self.rows.get(table, 0) + rows}
        if partitions:
            added["partitions"] = {**self.partitions, table: self.partitions.get(table, 0) + partitions}
        return self.model_copy(update=added)

    def within(self, part: str) -> Cursor:
        """At the start of a partition, or of the next table."""
        return self.model_copy(update={"part": part, "at": After().at, "id": After().id})

    def finished(self, table: str) -> Cursor:
        return self.within("").model_copy(update={"done": [*self.done, table]})


class Outcome(BaseModel):
    """What a run came to, by table. `left`: tables with more to go, for the next run; `waiting`: partitions that an open
    transaction held up."""

    dry_run: bool
    drained: bool
    rows: dict[str, int]
    partitions: dict[str, int]
    left: list[str]
    waiting: list[str]

    def sentence(self) -> str:
        """For the task's summary."""
        said = "would go" if self.dry_run else "deleted"
        parts = ", ".join(f"{rows} {table}" for table, rows in self.rows.items()) or "nothing"
        months = sum(self.partitions.values())
        whole = f", {months} partitions whole" if months else ""
        rest = f"; not finished: {', '.join(self.left)}" if self.left else ""
        return f"{said}: {parts}{whole}{rest}"
