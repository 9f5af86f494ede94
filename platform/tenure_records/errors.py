"""What the records domain refuses, in the tree of `tenure.model.errors`. A message names things, never an object's data.

UsageError ── InvalidClass, InvalidKey, InvalidObject, SchemaRefused
Refused ───── NoSuchClass, NoSuchObject, NoSuchField, ClassExists, FieldExists, TooManyFields, RevisionConflict,
              Uninspectable
"""

from tenure.model.errors import Refused, UsageError


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


class RevisionConflict(Refused):
    """Somebody changed it meanwhile: read it again, decide again."""
