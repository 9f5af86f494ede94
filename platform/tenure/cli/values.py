"""What may be typed: ids, durations, times, labels, JSON. Pure; a mistake is a usage error that shows what was meant."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import typer

from tenure.model.durations import is_duration, read_duration
from tenure.model.errors import UsageError, shortened


def readable_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments as given. Raises UsageError for one that is not UTF-8: no message could show it, no column keep it."""
    for position, text in enumerate(arguments, 1):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"argument {position} is not valid UTF-8") from None
    return list(arguments)


def an_id(text: str) -> UUID:
    """The id of a task or activity."""
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(
            f"{shortened(text)!r} is no id: an id is a UUID, as submit and list print it"
        ) from None


def duration(text: str) -> timedelta:
    """`90`, `90s`, `5m`, `2h`, `1d`, `250ms`; more than nothing, at most 100 years."""
    try:
        return read_duration(text)
    except UsageError as error:
        raise typer.BadParameter(str(error)) from None


def seconds(text: str) -> float:
    """A duration as seconds; 0 is allowed (look once)."""
    return 0.0 if text.strip() in ("0", "0s") else duration(text).total_seconds()


def moment(text: str) -> datetime:
    """An ISO time with its zone: without one it could mean two things."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"{shortened(text)!r} is no ISO time: write 2030-01-31T12:00:00Z") from None
    if at.tzinfo is None:
        raise typer.BadParameter(f"{shortened(text)!r} has no zone: append Z for UTC, or an offset as in +02:00")
    return at


def deadline(text: str) -> datetime | timedelta:
    """A duration from now (by the database's clock), or an ISO time with its zone."""
    if is_duration(text):
        return duration(text)
    try:
        return moment(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(f"{error.message}, or a duration such as 60s, 5m, 2h") from None


def since(text: str) -> datetime | timedelta:
    """A duration before now (by the database's clock), or an ISO time with its zone."""
    return deadline(text)


def labels(pairs: Sequence[str]) -> dict[str, str]:
    """`name=value` pairs as a mapping."""
    made: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"label {shortened(pair)!r}: write name=value")
        made[name] = value
    return made


def params(text: str) -> dict[str, Any]:
    """A JSON object: written out, `@FILE`, or `-` for stdin."""
    source = _source(text)
    try:
        value = json.loads(source, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        near = shortened(source[max(error.pos - 10, 0) : error.pos + 10], 24)
        raise typer.BadParameter(
            f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}, near {near!r}"
        ) from None
    except RecursionError:
        raise typer.BadParameter("JSON nested too deeply") from None
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {shortened(error, 100)}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f'params are a JSON object such as {{"name": 1}}, not {shortened(source, 30)!r}')
    return value


def _source(text: str) -> str:
    try:
        if text == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(text[1:]).read_text("utf-8-sig") if text.startswith("@") else text
    except OSError as error:
        raise typer.BadParameter(f"cannot read {shortened(text[1:])}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"{'stdin' if text == '-' else shortened(text[1:])} is not UTF-8 at byte {error.start}"
        ) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
