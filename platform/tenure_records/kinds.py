"""The kinds of this domain, as submitters and recovery know them; their bodies run in workers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tenure.model.kinds import KindSpec

PAGE_ROWS = 1_000
BATCH_ROWS = 64
BATCH_BYTES = 8 * 1024 * 1024


class Reindex(BaseModel):
    """Which objects of which class to evaluate, by the definitions of which revision. Written by the domain only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    class_id: int
    class_name: str
    revision: Annotated[int, Field(ge=0)]
    upper: Annotated[int, Field(ge=0, description="The last object id; later objects materialise when written.")]
    repair: Annotated[bool, Field(description="Rewrite also what claims to be of this revision.")] = False
    page_rows: Annotated[int, Field(ge=1, le=10_000)] = PAGE_ROWS


REINDEX = KindSpec(
    "records.reindex",
    params=Reindex,
    queue="default",
    max_attempts=5,
    on_lost="resume",
    retry_resumes=True,
    stop_within=2.0,
    internal="tenure records rebuild",
    keep_params="they name a class and a revision, no data, and tell which rebuild a finished task was",
)


class SchemaValidation(BaseModel):
    """Which objects of which class to judge, by which schema revision. Written by the domain only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    class_id: int
    class_name: str
    schema_id: int
    number: Annotated[int, Field(ge=1, description="The schema revision, as people count them.")]
    scan_id: int
    mode: Literal["impact", "revalidation"]
    upper: Annotated[int, Field(ge=0, description="The last object id; later objects are judged when written.")]
    object_bytes: Annotated[int, Field(ge=1, description="Longer stored JSON text is never fetched.")]
    batch_rows: Annotated[int, Field(ge=1, le=10_000)] = BATCH_ROWS
    batch_bytes: Annotated[int, Field(ge=1, description="Of stored JSON text.")] = BATCH_BYTES


SCHEMA_VALIDATION = KindSpec(
    "records.schema_validation",
    params=SchemaValidation,
    queue="default",
    max_attempts=5,
    on_lost="resume",
    on_shutdown="release",
    stop_within=2.0,
    internal="tenure records schema impact, or revalidate",
    keep_params="they name a class and a schema revision, no data, and tell what an ended scan was about",
)


class RecordsRetention(BaseModel):
    """Delete the objects that their class does not keep any longer; with `dry_run` count them only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    class_name: Annotated[str | None, Field(description="One class; without it every class, and old evidence.")] = None
    dry_run: bool = False


RECORDS_RETENTION = KindSpec(
    "records.retention",
    params=RecordsRetention,
    queue="default",
    max_attempts=5,
    on_lost="resume",
    on_shutdown="release",
    keep_params="they name a class and say whether it was a dry run",
)

RECORDS_REVALIDATION = KindSpec(
    "records.revalidation",
    queue="default",
    max_attempts=5,
    on_lost="resume",
    on_shutdown="release",
)
