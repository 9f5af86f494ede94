"""`platform.retention` as submitters know it; its body runs in workers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tenure.model.kinds import KindSpec


class Retention(BaseModel):
    """Delete what is older than `tenure settings` say; with `dry_run` count it only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dry_run: bool = Field(False, description="Count what would go, by the same statements, and delete nothing.")


RETENTION = KindSpec(
    "platform.retention",
    params=Retention,
    max_attempts=5,
    on_lost="resume",
    on_shutdown="release",
    keep_params="they say whether it was a dry run",
)
