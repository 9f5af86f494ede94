"""Decimal arithmetic: exact sums, one rounding to 34 significant digits, half to even, exponents within ±308.

Never uses the thread's decimal context: whoever calls may have changed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    Subnormal,
)
from typing import Final, TypeAlias

from .document import JsonValue
from .errors import NON_NUMERIC_OPERAND, NUMERIC_OUT_OF_RANGE, FieldFailure
from .limits import MAX_DIGITS, MAX_EXPONENT

Number: TypeAlias = int | Decimal

# Passed explicitly and never changed, apart from the flags, which nothing reads.
_ROUNDING: Final = Context(
    prec=MAX_DIGITS, rounding=ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999, traps=[InvalidOperation, DivisionByZero]
)
# Operands span 10^308 down to 10^-341: 16 of them add up exactly in under 700 digits. A rounding would be a bug.
_EXACT: Final = Context(prec=1_000, Emin=-999_999, Emax=999_999, traps=[InvalidOperation, Overflow, Inexact])

# Raises for what is not in range as it stands: more digits, or an exponent beyond. A zero has neither.
_IN_RANGE: Final = Context(
    prec=MAX_DIGITS, Emin=-MAX_EXPONENT, Emax=MAX_EXPONENT, traps=[InvalidOperation, Inexact, Overflow, Subnormal]
)

_PLAIN: Final = 10**MAX_DIGITS


def operand(value: JsonValue) -> Number:
    """The value as a number to calculate with; FieldFailure when it is none (a boolean is none) or out of range."""
    if type(value) is int:
        if -_PLAIN < value < _PLAIN:
            return value
        value = Decimal(value)
    if type(value) is not Decimal:
        raise FieldFailure(NON_NUMERIC_OPERAND)
    try:
        return _IN_RANGE.plus(value)
    except DecimalException:
        raise FieldFailure(NUMERIC_OUT_OF_RANGE) from None


def settled(number: Number) -> Number:
    """One form per value, for a number in range: int when it is whole, else a Decimal without trailing zeros."""
    if type(number) is int:
        return number
    if _ROUNDING.to_integral_value(number) == number:
        return int(number)
    return _ROUNDING.normalize(number)


def total(numbers: Sequence[Number]) -> Number:
    """The exact sum, rounded once; FieldFailure when it leaves the range."""
    return _rounded(_sum(numbers))


def mean(numbers: Sequence[Number]) -> Number:
    """The exact mean, rounded once; FieldFailure when it leaves the range."""
    return _rounded(_ROUNDING.divide(_sum(numbers), len(numbers)))


def _sum(numbers: Sequence[Number]) -> Number:
    result = numbers[0]
    for number in numbers[1:]:
        if type(result) is int and type(number) is int:
            result += number
        else:
            result = _EXACT.add(result, number)
    return result


def _rounded(number: Number) -> Number:
    if type(number) is int and -_PLAIN < number < _PLAIN:
        return number
    rounded = _ROUNDING.plus(number)
    if rounded and not _within(rounded):
        raise FieldFailure(NUMERIC_OUT_OF_RANGE)
    return settled(rounded)


def _within(number: Decimal) -> bool:
    return -MAX_EXPONENT <= number.adjusted() <= MAX_EXPONENT
