"""The endpoint of a worker or beat: what it answers, to whom, and that it is gone the moment it is told to stop."""

import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tenure.model.errors import Unavailable
from tenure.runtime.http import PATIENCE, Endpoint
from tests.support.ports import free_port


class Site:
    """An endpoint whose health is what the test says."""

    def __init__(self) -> None:
        self.fresh = True
        self.endpoint = Endpoint(free_port(), health=self.health, metrics=lambda: b"up 1\n")
        self.endpoint.start()

    def health(self) -> dict[str, Any]:
        return {"role": "worker", "fresh": self.fresh, "counter": 7}

    def get(self, path: str, method: str = "GET") -> tuple[int, str, bytes]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.endpoint.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.headers["Content-Type"], refused.read()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    assert made.endpoint.join(PATIENCE + 1)


def test_health_is_200_when_the_loop_is_fresh_and_503_when_it_is_not(site: Site) -> None:
    status, kind, body = site.get("/health")
    assert (status, kind, json.loads(body)["counter"]) == (200, "application/json", 7)
    site.fresh = False
    status, _, body = site.get("/health?from=probe")
    assert (status, json.loads(body)["fresh"]) == (503, False)


def test_metrics_are_text_and_nothing_else_is_served(site: Site) -> None:
    status, kind, body = site.get("/metrics")
    assert (status, body) == (200, b"up 1\n")
    assert kind.startswith("text/plain; version=0.0.4")
    assert site.get("/")[0] == 404
    assert site.get("/../etc/passwd")[0] == 404
    assert site.get("/health", "HEAD")[::2] == (200, b"")
    assert site.get("/health", "POST")[0] == 501


def test_only_this_host_can_reach_it(site: Site) -> None:
    assert site.endpoint._socket.getsockname()[0] == "127.0.0.1"


def test_a_caller_that_says_nothing_holds_up_the_next_for_its_patience_at_most(site: Site) -> None:
    with socket.create_connection(("127.0.0.1", site.endpoint.port)):
        began = time.monotonic()
        assert site.get("/health")[0] == 200
        assert time.monotonic() - began < PATIENCE + 1


def test_a_caller_that_goes_away_disturbs_nothing(site: Site) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", site.endpoint.port)) as caller:
            caller.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert site.get("/health")[0] == 200


def test_a_port_in_use_is_one_line_that_says_what_to_set(site: Site) -> None:
    with pytest.raises(Unavailable, match=r"^port \d+ of 127\.0\.0\.1 cannot be had .*TENURE_HTTP_PORT"):
        Endpoint(site.endpoint.port, health=site.health, metrics=lambda: b"")


def test_stopping_refuses_callers_at_once_and_gives_the_port_back(site: Site) -> None:
    site.endpoint.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", site.endpoint.port), 1)
    site.endpoint.stop()
    assert site.endpoint.join(1)
    again = Endpoint(site.endpoint.port, health=site.health, metrics=lambda: b"")
    assert again.join(1)


def test_a_forked_child_does_not_keep_the_port(site: Site) -> None:
    reader, writer = os.pipe()
    forked, ready = os.pipe()
    child = os.fork()
    if not child:
        os.write(ready, b"x")
        os.read(reader, 1)
        os._exit(0)
    try:
        assert os.read(forked, 1) == b"x"
        site.endpoint.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", site.endpoint.port), 1)
        assert site.endpoint.join(1)
        with socket.socket() as other:
            # SO_REUSEADDR forgives connections that are just over, not a socket that still listens.
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", site.endpoint.port))
    finally:
        os.write(writer, b"x")
        os.waitpid(child, 0)
        for descriptor in (reader, writer, forked, ready):
            os.close(descriptor)
