"""Computed fields: values derived from one object's JSON by a closed catalogue of operations.

Pure: reads no database, clock, setting or other object, so equal definitions and equal data give equal values anywhere.
"""

from .definition import Definition, Operation, define
from .document import JsonValue, decode, decode_new, decode_ordinary
from .encoding import canonical, digest, encode
from .errors import (
    CODES,
    DocumentTooDeep,
    InvalidDefinition,
    InvalidDocument,
    LoneSurrogate,
    NulCharacter,
    NumberOutOfRange,
)
from .evaluator import Evaluation, Evaluator, document_digest
from .limits import MAX_PERSONAL_DEFINITIONS, MAX_SHARED_DEFINITIONS, SEMANTICS_VERSION

__all__ = [
    "CODES",
    "MAX_PERSONAL_DEFINITIONS",
    "MAX_SHARED_DEFINITIONS",
    "SEMANTICS_VERSION",
    "Definition",
    "DocumentTooDeep",
    "Evaluation",
    "Evaluator",
    "InvalidDefinition",
    "InvalidDocument",
    "JsonValue",
    "LoneSurrogate",
    "NulCharacter",
    "NumberOutOfRange",
    "Operation",
    "canonical",
    "decode",
    "decode_new",
    "decode_ordinary",
    "define",
    "digest",
    "document_digest",
    "encode",
]
