"""What became of each line: written, unchanged or refused. Never what was in it, beyond its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tenure_records.errors import SchemaViolation
from tenure_records.schemas.judge import Finding
from tenure_records.schemas.writing import described


class LineRefused(Exception):
    """Why a line cannot be taken. `field` is where in the line, `value` what stands there, shortened."""

    def __init__(self, reason: str, field: str | None = None, value: str | None = None) -> None:
        super().__init__(reason)
        self.field = field
        self.value = value


@dataclass(frozen=True)
class Outcome:
    """One line. `created`: the object is new (None where nothing was written); `field` and `value` of what was refused."""

    line: int
    outcome: Literal["written", "unchanged", "refused"]
    key: str | None = None
    created: bool | None = None
    field: str | None = None
    value: str | None = None
    reason: str | None = None

    def document(self) -> dict[str, Any]:
        """As JSON; what says nothing is left out."""
        return {name: value for name, value in vars(self).items() if value is not None}


def refused(line: int, error: LineRefused) -> Outcome:
    """The outcome of a line that cannot be an object."""
    return Outcome(line, "refused", field=error.field, value=error.value, reason=str(error))


def violating(error: SchemaViolation, numbers: Mapping[str, int]) -> list[Outcome]:
    """The outcomes of objects that the strict schema of their class refuses."""
    return [
        Outcome(
            numbers[key],
            "refused",
            key,
            field=_place(findings),
            reason=f"does not fit the schema {described(findings)}",
        )
        for key, findings in error.violations.items()
    ]


def _place(findings: Sequence[Finding]) -> str:
    return f"data{findings[0].pointer}" if findings else "data"
