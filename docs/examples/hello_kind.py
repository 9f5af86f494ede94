"""A kind: typed params, what should happen when things go wrong, and a body that goes page by page."""

from pydantic import BaseModel
from sqlalchemy import text

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt

NEXT_PAGE = text("select id, name from guests where id > :after order by id limit 2")
GREET = text("update guests set greeting = :greeting where id = :id")


class Hello(BaseModel):
    greeting: str = "Hello"


class Cursor(BaseModel):
    last_id: int = 0


@kind("hello", params=Hello, on_lost="resume", on_shutdown="release", max_attempts=3)
def hello(attempt: Attempt, params: Hello) -> dict[str, int]:
    cursor = attempt.resume(Cursor())  # the last committed checkpoint, or a fresh one
    while True:
        with attempt.transaction() as tx:  # effects and checkpoint commit together, or not at all
            page = tx.execute(NEXT_PAGE, {"after": cursor.last_id}).all()
            if not page:
                break
            tx.execute(GREET, [{"id": row.id, "greeting": f"{params.greeting}, {row.name}!"} for row in page])
            cursor = attempt.checkpoint(tx, Cursor(last_id=page[-1].id), processed=len(page))
        # Leaving the block has committed the page; a cancel or a shutdown stops the body here.
    return {"greeted": attempt.counters.processed}
