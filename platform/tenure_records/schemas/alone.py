"""Judging in a process of its own, which ends itself when a document takes too long. Started as a script by `aside`.

It imports nothing of Tenure, so that it starts in a tenth of a second. The library cannot be interrupted: the timer's
signal ends the process, as a stack that overflows or memory that runs out does. Whoever asked sees the pipe close.

A request is one line of JSON with the lengths, then the schema and the document; an answer is a line with the verdict
and, if places are wanted and the document is invalid, a line with one place and a line with up to as many as wanted.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import partial
from typing import Any, BinaryIO

import jsonschema_rs

_KEPT = 8
# Python's own bound for reading an int from text.
_INT_DIGITS = 4_300
# The longest number that PostgreSQL stores, counted in the smallest step that a schema may name.
_DIVISION = Context(prec=200_000, Emax=MAX_EMAX, Emin=MIN_EMIN)


class MultipleOf:
    """`multipleOf` by exact division. The library's own takes 4905949597963571.96 for a multiple of 3."""

    __slots__ = ("_divisor",)

    def __init__(self, _schema: dict[str, Any], value: Any, _path: list[str | int]) -> None:
        self._divisor = _exact(value)

    def validate(self, instance: Any) -> None:
        """Raises ValueError for a number that is no multiple; the library adds the place and the keyword."""
        is_number = isinstance(instance, int | float | Decimal) and not isinstance(instance, bool)
        if is_number and _DIVISION.remainder(_exact(instance), self._divisor):
            raise ValueError


def _exact(number: int | float | Decimal) -> Decimal:
    # A double stands for the shortest decimal that is read as it: for no other is one ever made here.
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


KEYWORDS: dict[str, type[Any]] = {"multipleOf": MultipleOf}


def broken_rules(validator: jsonschema_rs.Validator, document: Any, most: int) -> list[tuple[list[str | int], str]]:
    """Up to `most` different (path into the document, keyword) of what the document breaks."""
    found: dict[tuple[tuple[str | int, ...], str], None] = {}
    for error in validator.iter_errors(document):
        found.update(dict.fromkeys(_places(error, most)))
        if len(found) >= most:
            break
    return [(list(path), keyword) for path, keyword in found][:most]


def _places(error: jsonschema_rs.ValidationError, most: int) -> list[tuple[tuple[str | int, ...], str]]:
    kind: Any = error.kind
    path = tuple(error.instance_path)
    if kind.name == "required":
        return [((*path, kind.property), kind.name)]
    if kind.name in ("additionalProperties", "unevaluatedProperties"):
        return [((*path, name), kind.name) for name in kind.unexpected[:most]]
    return [(path, kind.name)]


def _first(validator: jsonschema_rs.Validator, document: Any) -> list[tuple[tuple[str | int, ...], str]]:
    try:
        validator.validate(document)
    except jsonschema_rs.ValidationError as error:
        return _places(error, 1)
    return []


def serve(asked: BinaryIO, answers: BinaryIO) -> None:
    """Say that all is ready, and answer until the pipe closes."""
    answers.write(b"ready\n")
    answers.flush()
    kept: dict[bytes, jsonschema_rs.Validator] = {}
    while header := asked.readline():
        order = json.loads(header)
        schema, text = asked.read(order["schema"]), asked.read(order["document"])
        if schema not in kept:
            if len(kept) == _KEPT:
                kept.clear()
            kept[schema] = _validator(schema, order)
        document = _decode(text)
        _limit(order["seconds"])
        valid = kept[schema].is_valid(document)
        answers.write(json.dumps(valid).encode() + b"\n")
        answers.flush()
        if order["places"] and not valid:
            _limit(order["naming_seconds"])
            # The first place is found without the others, which may be more than there is time for.
            for places in (_first, partial(broken_rules, most=order["places"])):
                answers.write(json.dumps(places(kept[schema], document)).encode() + b"\n")
                answers.flush()
        _limit(0)


def _validator(schema: bytes, order: dict[str, Any]) -> jsonschema_rs.Validator:
    return getattr(jsonschema_rs, order["validator"])(  # type: ignore[no-any-return]
        _decode(schema),
        keywords=KEYWORDS,
        validate_formats=False,
        pattern_options=jsonschema_rs.RegexOptions(*order["pattern"]),
        offline=True,
    )


def _decode(text: bytes) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=_integer)


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _INT_DIGITS else Decimal(digits)


def _limit(seconds: float) -> None:
    # Processor time, so that a busy machine gives the same verdicts; and the clock for what does not compute at all.
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)


def main() -> None:
    """Serve the standard streams, within the memory named by the first argument."""
    # The terminal's Ctrl-C and a stop of the service are the parent's to handle: this ends when the parent does.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    for name in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(name, signal.SIG_DFL)
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
