"""What can go wrong: the seven stable codes a field may carry, and the refusals of a definition or a document.

A code is data: the field becomes null beside it and neither a write nor a page fails. A refusal is raised.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tenure.model.errors import UsageError

INPUT_TOO_LARGE: Final = "input_too_large"
NON_NUMERIC_OPERAND: Final = "non_numeric_operand"
NON_INTEGER_RESULT: Final = "non_integer_result"
RESULT_TYPE_MISMATCH: Final = "result_type_mismatch"
NUMERIC_OUT_OF_RANGE: Final = "numeric_out_of_range"
EVALUATION_LIMIT_EXCEEDED: Final = "evaluation_limit_exceeded"
RESULT_TOO_LARGE: Final = "result_too_large"

CODES: Final = MappingProxyType(
    {
        INPUT_TOO_LARGE: "the object's data is longer than 1 MiB; every enabled field carries this code",
        NON_NUMERIC_OPERAND: "sum, average, min or max met a present value that is not a number",
        NON_INTEGER_RESULT: "the result is declared integer and the value is a number with a fraction",
        RESULT_TYPE_MISMATCH: "first_non_null found a value of another type than the declared one",
        NUMERIC_OUT_OF_RANGE: "a number needs more than 34 significant digits or an exponent beyond ±308",
        EVALUATION_LIMIT_EXCEEDED: "10,000 nodes per field, 50,000 work units per scope, or 200 levels of nesting",
        RESULT_TOO_LARGE: "a value over 64 KiB; or the scope over 256 KiB, then every enabled field carries this code",
    }
)


class InvalidDefinition(UsageError):
    """A definition breaks a rule; the message names the member and the reason."""


class InvalidDocument(UsageError):
    """A text is not JSON that PostgreSQL's jsonb can hold."""


class NulCharacter(InvalidDocument):
    """A string or key holds U+0000, which PostgreSQL cannot store."""


class LoneSurrogate(InvalidDocument):
    """A string or key holds half a surrogate pair, which has no UTF-8 form."""


class DocumentTooDeep(InvalidDocument):
    """Arrays and objects are nested more than 200 levels deep."""


class NumberOutOfRange(InvalidDocument):
    """A number that PostgreSQL's numeric cannot hold."""


class FieldFailure(Exception):
    """Ends the evaluation of one field with a code; never leaves the evaluator."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
