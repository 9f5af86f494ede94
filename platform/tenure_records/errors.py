"""What the records domain refuses, in the tree of `tenure.model.errors`. A message names things, never an object's data.

UsageError ── InvalidClass, InvalidKey, InvalidObject, InvalidQuery, SchemaRefused
Refused ───── NoSuchClass, NoSuchObject, NoSuchField, NoSuchSchema, ClassExists, FieldExists, TooManyFields,
              RevisionConflict, SchemaViolation, ActivationRefused, ClassBusy, Uninspectable, CannotJudge,
              ValuesOutOfDate, NotAPerson
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tenure.model.errors import Refused, UsageError

if TYPE_CHECKING:
    from tenure_records.schemas.evidence import Sample, Tally
    from tenure_records.schemas.judge import Finding


class InvalidClass(UsageError):
    """A class name or description breaks a rule."""


class InvalidKey(UsageError):
    """An object's key is missing, blank, too long or not printable; or given twice."""


class InvalidObject(UsageError):
    """An object's data is no JSON object that can be stored."""


class SchemaRefused(UsageError):
    """A schema breaks a rule; the message has a JSON pointer into the schema."""


class Uninspectable(Refused):
    """A document that cannot be judged within the bounds of size and work."""


class CannotJudge(Refused):
    """A document was not judged, for a reason that lies with this machine: nothing is known of it."""


class InvalidQuery(UsageError):
    """A filter, a sort or a cursor that the class's fields do not allow."""


class NoSuchClass(Refused):
    pass


class NoSuchObject(Refused):
    pass


class NoSuchField(Refused):
    pass


class ClassExists(Refused):
    pass


class FieldExists(Refused):
    pass


class TooManyFields(Refused):
    pass


class NotAPerson(Refused):
    """Something that only a human user may have was asked for another."""


class RevisionConflict(Refused):
    """Somebody changed it meanwhile: read it again, decide again."""


class NoSuchSchema(Refused):
    """The class has no schema revision that this could be about."""


class ClassBusy(Refused):
    """Writers held the class for longer than was to be waited."""


class SchemaViolation(Refused):
    """Data that the strict schema of its class does not allow; nothing was written.

    `violations`: what is wrong with each refused object, by key; at most ten findings each.
    """

    def __init__(self, message: str, violations: Mapping[str, Sequence[Finding]]) -> None:
        super().__init__(message)
        self.violations = violations


class ActivationRefused(Refused):
    """Not every object has valid evidence: how many have what instead, and at most ten of them."""

    def __init__(self, message: str, tally: Tally, samples: Sequence[Sample]) -> None:
        super().__init__(message)
        self.tally = tally
        self.samples = samples


class ValuesOutOfDate(Refused):
    """Too many objects have no current values for the question to be answered now."""
