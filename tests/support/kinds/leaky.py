"""`leaky`: carries a canary everywhere an author might put a secret: params, result, the text of an exception."""

from typing import Literal

from pydantic import BaseModel, ConfigDict
from sqlalchemy import text

from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt


class Leaky(BaseModel):
    model_config = ConfigDict(extra="forbid")

    secret: str
    how: Literal["result", "raise", "sql", "chained", "wait"]


@kind("leaky", params=Leaky)
def leaky(attempt: Attempt, params: Leaky) -> dict[str, str]:
    if params.how == "raise":
        raise ValueError(params.secret)
    if params.how == "chained":
        try:
            raise KeyError(params.secret)
        except KeyError as error:
            raise RuntimeError(f"for {params.secret}") from error
    if params.how == "sql":
        with attempt.transaction() as tx:
            # The driver's message quotes the value, and the statement with its values.
            tx.execute(text("select cast(:secret as integer)"), {"secret": params.secret})
    if params.how == "wait":
        attempt.sleep(60)
        attempt.check()
    return {"secret": params.secret}
