"""The broker connection of a worker, made to survive any message: what kombu cannot read is discarded, not raised.

kombu 5.7 lets a malformed message end the process (or the connection, for ever: it takes a KeyError for a lost one).
Nothing of a discarded message is logged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import kombu
import structlog
from celery.app import amqp
from kombu.transport import virtual

_BODY_ENCODINGS = (None, "", "utf-8", "base64")
# What decoding raises, unlike a socket: JSON that is none, is too deep, or names one of kombu's types falsely.
_UNDECODABLE = (ValueError, TypeError, RecursionError, ArithmeticError)


def flaw(message: Any) -> str | None:
    """The first part of kombu's envelope that is not as kombu writes it, or None."""
    if not isinstance(message, dict):
        return "envelope"
    properties = message.get("properties")
    if not isinstance(properties, dict):
        return "properties"
    info = properties.get("delivery_info")
    tag = properties.get("delivery_tag")
    shapes = {
        "delivery_tag": isinstance(tag, str) and tag != "",
        "delivery_info": isinstance(info, dict)
        and all(part in info and isinstance(info[part], str | None) for part in ("exchange", "routing_key")),
        "body_encoding": properties.get("body_encoding") in _BODY_ENCODINGS,
        "body": isinstance(message.get("body"), str | None),
        "headers": isinstance(message.get("headers"), dict | None),
        "content-type": isinstance(message.get("content-type"), str | None),
        "content-encoding": isinstance(message.get("content-encoding"), str | None),
    }
    return next((part for part, fits in shapes.items() if not fits), None)


class _Channel:
    """Before kombu's Redis channel: its reads decode the message. It is off the queue by then, and nobody holds it."""

    connection_errors: tuple[type[BaseException], ...]

    def _brpop_read(self, **options: Any) -> Any:
        return self._guarded(super()._brpop_read, **options)  # type: ignore[misc]

    def _receive(self) -> Any:
        return self._guarded(super()._receive)  # type: ignore[misc]

    def _guarded(self, read: Any, **options: Any) -> Any:
        try:
            return read(**options)
        except _UNDECODABLE as error:
            if isinstance(error, self.connection_errors):
                raise
            _discarded("json", error)
            return True


class _Transport:
    """Before a virtual transport of kombu's: looks at each message before a consumer is given it."""

    connection_errors: tuple[type[BaseException], ...]
    channel_errors: tuple[type[BaseException], ...]

    def _deliver(self, message: Any, queue: str) -> None:
        part = flaw(message)
        if part is not None:
            _discarded(part, None)
            return
        try:
            super()._deliver(message, queue)  # type: ignore[misc]
        except Exception as error:
            # A KeyError here is the message's: the poller's own, of a stale socket, comes from elsewhere.
            if isinstance(error, self.connection_errors + self.channel_errors) and not isinstance(error, KeyError):
                raise
            _discarded("content", error)


def _discarded(part: str, error: BaseException | None) -> None:
    found = {"error": type(error).__name__} if error is not None else {}
    structlog.get_logger("tenure.consumer").error("message_discarded", part=part, **found)


@lru_cache
def guarded(transport: Any) -> Any:
    """This transport with the guard before it; one that is not virtual (AMQP's) checks envelopes itself."""
    if not issubclass(transport, virtual.Transport):
        return transport
    channel = type("Channel", (_Channel, transport.Channel), {})
    return type("Transport", (_Transport, transport), {"Channel": channel})


class Connection(kombu.Connection):
    """kombu's, on a guarded transport; so are its clones, and what it fails over to."""

    def get_transport_cls(self) -> Any:
        return guarded(super().get_transport_cls())


class AMQP(amqp.AMQP):
    """Set as an app's `amqp_cls`."""

    Connection = Connection
