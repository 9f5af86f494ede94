"""What a call in Celery's words asks of a kind: the one reading of options, for our own app and for foreign messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from tenure.model import requests
from tenure.model.errors import UsageError, shortened
from tenure.model.kinds import KindSpec
from tenure.model.records import Initiator
from tenure_celery.errors import UnsupportedByTenure

OPTIONS = "x-tenure-options"  # a header: what a client that is not our app may say beside Celery's own options

_BODY = "submit the next task from the kind's body, or when `result.get()` has answered"
_LIMIT = "declare run_limit on the kind, or give a deadline"
# Celery's own name for it, and what to use instead.
REFUSED: dict[str, str] = {
    "link": _BODY,
    "link_error": "wait with `result.get()`, which raises TaskFailed",
    "chain": _BODY,
    "chord": "submit the members, wait for them, then submit the last one",
    "time_limit": _LIMIT,
    "soft_time_limit": _LIMIT,
}


@dataclass(frozen=True)
class Asked:
    """A call understood. Times are absolute, or timedeltas from the moment of the database's clock."""

    params: Mapping[str, Any]
    at: datetime | timedelta | None = None
    start_by: datetime | timedelta | None = None
    priority: int | None = None
    initiator: Initiator | None = None
    submitter: str = ""
    key: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    deadline: datetime | timedelta | None = None
    scope: str | None = None


def refuse(spec: KindSpec, args: Any, options: Mapping[str, Any]) -> None:
    """Refuse by name what a durable task cannot have. UnsupportedByTenure."""
    if args:
        raise UnsupportedByTenure(
            f"{spec.name}: args: positional arguments are not supported by Tenure: "
            f"give the params by name, as in {spec.name!r} with kwargs={{…}} or delay(name=value)"
        )
    for name, instead in REFUSED.items():
        if options.get(name):
            raise UnsupportedByTenure(f"{spec.name}: {name} is not supported by Tenure: {instead}")


def priority_of(spec: KindSpec, given: Any, *, larger_first: bool) -> int | None:
    """Ours, of which the larger goes first. Celery's 0–9 moves the kind's own priority: on Redis 0 is both the default
    and the most urgent, so it is taken off; on other brokers larger is more urgent, so it is added."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= 9:
        raise UsageError(f"{spec.name}: priority {shortened(given)}: Celery's priorities are 0 to 9")
    return spec.priority + given if larger_first else spec.priority - given


def moment(spec: KindSpec, name: str, given: Any, zone: tzinfo) -> datetime | timedelta | None:
    """A number of seconds from now, a datetime or its ISO text; without a zone it is in `zone`, as Celery has it."""
    if given is None or isinstance(given, timedelta):
        return given
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return _seconds(spec, name, given)
    try:
        time = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        time = None
    if not isinstance(time, datetime):
        raise UsageError(f"{spec.name}: {name}: give seconds, a datetime or its ISO text")
    return time if time.utcoffset() is not None else time.replace(tzinfo=zone)


def _seconds(spec: KindSpec, name: str, given: float) -> timedelta:
    try:
        return timedelta(seconds=given)
    except OverflowError:
        raise UsageError(f"{spec.name}: {name} is more than 100 years away") from None


def with_header(spec: KindSpec, asked: Asked, header: Any) -> Asked:
    """What the header `x-tenure-options` adds. UsageError names the wrong part."""
    if header is None:
        return asked
    if not isinstance(header, Mapping):
        raise UsageError(f"{spec.name}: header {OPTIONS}: give a mapping")
    unknown = sorted(str(name) for name in header if name not in _READERS)
    if unknown:
        known = ", ".join(_READERS)
        raise UsageError(f"{spec.name}: header {OPTIONS}: {shortened(unknown[0])!r} is unknown; known are {known}")
    found = {name: _READERS[name](spec, value) for name, value in header.items() if value is not None}
    return replace(asked, **found)


def initiator_of(spec: KindSpec, given: Any) -> Initiator:
    """An Initiator, or a mapping with its three parts. UsageError."""
    if isinstance(given, Mapping):
        parts = [part for name in ("type", "id", "name") if isinstance(part := given.get(name), str)]
        given = Initiator(*parts) if len(parts) == 3 else None
    if not isinstance(given, Initiator):
        raise UsageError(f"{spec.name}: initiator: give type, id and name as text")
    requests.check_initiator(given)
    return given


def labels_of(spec: KindSpec, given: Any) -> dict[str, str]:
    """Text to text. UsageError."""
    if not isinstance(given, Mapping):
        raise UsageError(f"{spec.name}: labels: give a mapping of text to text")
    requests.check_labels(given)
    return dict(given)


def _text(name: str) -> Any:
    def read(spec: KindSpec, given: Any) -> str:
        if not isinstance(given, str):
            raise UsageError(f"{spec.name}: {name}: give text")
        return given

    return read


_READERS: dict[str, Any] = {
    "initiator": initiator_of,
    "labels": labels_of,
    "key": _text("key"),
    "submitter": _text("submitter"),
    "scope": _text("scope"),
    "deadline": lambda spec, given: moment(spec, "deadline", given, UTC),
}
