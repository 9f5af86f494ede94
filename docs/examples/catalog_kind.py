"""A kind that has been in use for a while: it had another name, and its params have grown by a field since."""

from typing import Any

from pydantic import BaseModel, Field
from sqlalchemy import text

from tenure.model.kinds import kind
from tenure.model.retry import Reject, RetryPolicy
from tenure.runtime.attempt import Attempt

EXISTS = text("select exists (select 1 from catalogs where name = :catalog)")
NEXT_PAGE = text("""select p.id, p.sku, p.price from products p join catalogs c on c.id = p.catalog_id
    where c.name = :catalog and p.id > :after order by p.id limit :rows""")
WRITE = text("insert into export_lines (export, position, line) values (:export, :position, :line)")


class Export(BaseModel):
    catalog: str
    separator: str = Field(";", min_length=1, max_length=1)
    page_rows: int = Field(100, gt=0, le=1000)


class Cursor(BaseModel):
    last_id: int = 0
    lines: int = 0


class Exported(BaseModel):
    lines: int


def with_separator(params: dict[str, Any]) -> dict[str, Any]:
    """Version 1 always wrote commas; what was submitted then must still be written so."""
    return {**params, "separator": ","}


@kind(
    "catalog.export",
    params=Export,
    version=2,
    upgrades={1: with_separator},
    aliases=("export_catalog",),
    on_lost="resume",
    on_shutdown="release",
    max_attempts=5,
    retry=RetryPolicy(initial=2.0, on=(ConnectionError, TimeoutError)),
)
def export(attempt: Attempt, params: Export) -> Exported:
    with attempt.transaction() as tx:
        if not tx.execute(EXISTS, {"catalog": params.catalog}).scalar():
            raise Reject(f"there is no catalog {params.catalog!r}")
    cursor = attempt.resume(Cursor())
    while True:
        with attempt.transaction() as tx:
            asked = {"catalog": params.catalog, "after": cursor.last_id, "rows": params.page_rows}
            page = tx.execute(NEXT_PAGE, asked).all()
            if not page:
                return Exported(lines=cursor.lines)
            for position, row in enumerate(page, cursor.lines + 1):
                line = f"{row.sku}{params.separator}{row.price}"
                tx.execute(WRITE, {"export": attempt.task_id, "position": position, "line": line})
            after = Cursor(last_id=page[-1].id, lines=cursor.lines + len(page))
            cursor = attempt.checkpoint(tx, after, processed=len(page))
