"""Whether the broker answers. Sends nothing that Celery could see."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from tenure.model.errors import BrokerUnavailable, CredentialsRejected, InvalidSettings

TIMEOUT = 3.0  # seconds


def address(url: str) -> str:
    """host:port/path of a URL, without its credentials."""
    parts = urlsplit(url)
    return f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def ping(url: str) -> str:
    """Where and how it answered. Raises BrokerUnavailable, CredentialsRejected, InvalidSettings."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidSettings("TENURE_BROKER_URL cannot be read: redis://:PASSWORD@HOST:PORT/0 is its form") from None
    if parts.scheme in ("redis", "rediss"):
        return f"{_ping_redis(url)} at {address(url)}"
    if not host or not port:
        raise InvalidSettings("TENURE_BROKER_URL cannot be read: redis://:PASSWORD@HOST:PORT/0 is its form")
    try:
        socket.create_connection((host, port), TIMEOUT).close()
    except OSError:
        raise _away() from None
    return f"accepts connections at {address(url)} ({parts.scheme}: not asked further)"


def _ping_redis(url: str) -> str:
    import redis

    try:
        client = redis.Redis.from_url(url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, retry=None)
        with client:
            information = client.info("server")
    except (redis.AuthenticationError, redis.ResponseError):
        raise CredentialsRejected("the broker refused the password or database: check TENURE_BROKER_URL") from None
    except (redis.RedisError, OSError, ValueError):
        raise _away() from None
    assert isinstance(information, dict)
    return f"{information.get('server_name', 'redis')} {information.get('valkey_version') or information.get('redis_version')}"


def _away() -> BrokerUnavailable:
    return BrokerUnavailable("the broker cannot be reached: check TENURE_BROKER_URL, and that the server is up")
