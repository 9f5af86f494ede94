"""Messages of Celery apps that are not ours: what their envelope asks for, as a request to adopt.

Nothing in it is believed: what cannot be read or cannot be had becomes the reason of a rejected task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tenure.adoption import Request
from tenure.model import requests
from tenure.model.errors import UsageError, shortened
from tenure.model.kinds import KindSpec
from tenure.model.records import Initiator
from tenure_celery import calls, ids
from tenure_celery.calls import Asked

SENDER = "celery"
UNREADABLE = "body: it is not what Celery sends: JSON of args, kwargs and options"


@dataclass(frozen=True)
class Foreign:
    """One message: its headers, its priority, and its body, None where that could not be read."""

    id: str
    headers: Mapping[str, Any]
    priority: Any
    body: tuple[Any, Any, Any] | None


def request_of(spec: KindSpec, message: Foreign, *, larger_first: bool) -> Request:
    """What is to be adopted. Initiator: (celery, origin, the host in it); a message may name itself another id and name.
    The type stays: whoever reads the history sees that only the broker vouches for it."""
    labels = {name: requests.storable(text) or "" for name, text in ids.labelled(message.id).items()}
    request = Request(ids.row_id(message.id), _sender(message.headers.get("origin")), {}, labels)
    try:
        asked = _asked(spec, message, larger_first)
        return replace(
            request,
            params=asked.params,
            labels={**labels, **asked.labels},
            initiator=_vouched(asked.initiator, request.initiator),
            at=_moment(spec, "eta", message.headers.get("eta")),
            start_by=_moment(spec, "expires", message.headers.get("expires")),
            **{name: getattr(asked, name) for name in ("priority", "submitter", "key", "deadline", "scope")},
        )
    except UsageError as error:
        return replace(request, refusal=str(error))


def _asked(spec: KindSpec, message: Foreign, larger_first: bool) -> Asked:
    if message.body is None:
        raise UsageError(f"{spec.name}: {UNREADABLE}")
    args, kwargs, embed = message.body
    embed = embed if isinstance(embed, Mapping) else {}
    limits = message.headers.get("timelimit")
    hard, soft = limits if isinstance(limits, list | tuple) and len(limits) == 2 else (None, None)
    celerys = {"link": embed.get("callbacks"), "link_error": embed.get("errbacks"), "time_limit": hard}
    calls.refuse(spec, args, {**embed, **celerys, "soft_time_limit": soft})
    if not isinstance(kwargs, Mapping):
        raise UsageError(f"{spec.name}: kwargs: give the params by name")
    priority = calls.priority_of(spec, message.priority, larger_first=larger_first)
    return calls.with_header(spec, Asked(params=kwargs, priority=priority), message.headers.get(calls.OPTIONS))


def _moment(spec: KindSpec, name: str, given: Any) -> datetime | None:
    moment = calls.moment(spec, name, given, UTC)
    if moment is None or isinstance(moment, datetime):
        return moment
    raise UsageError(f"{spec.name}: {name}: a message carries it as ISO text")


def _vouched(named: Initiator | None, sender: Initiator) -> Initiator:
    """Who a message says it is of, by the id of its sender where it gives none."""
    return sender if named is None else Initiator(SENDER, named.id or sender.id, named.name)


def _sender(origin: Any) -> Initiator:
    text = shortened(requests.storable(origin) if isinstance(origin, str) else "", 200) or "unknown"
    return Initiator(SENDER, text, text.rpartition("@")[2] or text)
