"""A kind that counts rows, page by page: enough to submit, follow and stop."""

from pydantic import BaseModel, ConfigDict, Field

from tenure.model.kinds import KindSpec, kind


class Count(BaseModel):
    """What is counted."""

    model_config = ConfigDict(extra="forbid")

    rows: int = Field(10, ge=0)
    note: str = ""


COUNT = KindSpec("tests.count", params=Count, queue="counting", max_attempts=3, aliases=("tests.tally",))


@kind(COUNT)
def count(attempt: object, params: Count) -> dict[str, int]:
    """Answers how many there were."""
    return {"rows": params.rows}
