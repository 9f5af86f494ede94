"""A worker's or beat's own HTTP: `/health` and `/metrics` on 127.0.0.1, off unless TENURE_HTTP_PORT is set.

Reads memory only: it answers while database and broker are away. Nobody else's requests are taken: no other host's.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

import structlog

from tenure.model.errors import Unavailable
from tenure.runtime.masking import signals_masked

HOST = "127.0.0.1"
PATIENCE = 2.0  # s a caller may take for its request: there is one thread, and a probe waits


class Endpoint:
    """Bound when it is made, answers from `start` on, gone the moment `stop` is called.

    `health` answers a JSON document whose `fresh` decides between 200 and 503; `metrics` answers Prometheus' text.
    Raises Unavailable when the port cannot be had.
    """

    def __init__(self, port: int, *, health: Callable[[], dict[str, Any]], metrics: Callable[[], bytes]) -> None:
        self._health = health
        self._metrics = metrics
        self._log = structlog.get_logger("tenure.http")
        self._stopped = False
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
            self._socket.listen(16)
        except OSError as error:
            self._socket.close()
            raise Unavailable(
                f"port {port} of {HOST} cannot be had ({os.strerror(error.errno or 0)}): set TENURE_HTTP_PORT to a free one"
            ) from None
        self.port: int = self._socket.getsockname()[1]
        # A forked child must not keep the port from the next worker.
        os.register_at_fork(after_in_child=self._socket.close)
        self._thread = threading.Thread(target=self._run, name="tenure-http", daemon=True)

    def start(self) -> None:
        with signals_masked():
            self._thread.start()
        self._log.info("http", host=HOST, port=self.port)

    def stop(self) -> None:
        """Refuse callers from now on. Never blocks: fit for a signal handler. Twice is harmless."""
        self._stopped = True
        try:
            # Not close: that would leave the thread in accept() and the port open.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was stopped before

    def join(self, seconds: float) -> bool:
        """Stop, and wait for the request in hand; whether the thread has ended."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        self._socket.close()
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopped:
            try:
                caller, address = self._socket.accept()
            except OSError:
                continue  # stopped, or a caller that was gone before it was taken
            try:
                with caller:
                    caller.settimeout(PATIENCE)
                    _Request(self._answer, caller, address)
            except OSError:
                pass  # a caller that went away: its own affair
            except Exception as error:
                # A figure that cannot be told must not silence the probe.
                self._log.error("http_failed", error=type(error).__name__)

    def _answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        if path == "/health":
            document = self._health()
            status = HTTPStatus.OK if document["fresh"] else HTTPStatus.SERVICE_UNAVAILABLE
            return status, "application/json", json.dumps(document).encode()
        if path == "/metrics":
            return HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", self._metrics()
        return HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"/health and /metrics are all there is\n"


class _Request(BaseHTTPRequestHandler):
    """One request: GET and HEAD; HTTP/1.0, so that the connection ends with it."""

    server_version = "tenure"
    sys_version = ""

    def __init__(self, answer: Callable[[str], tuple[HTTPStatus, str, bytes]], caller: Any, address: Any) -> None:
        self._answer = answer
        super().__init__(caller, address, None)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        status, kind, body = self._answer(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """A probe every few seconds is no news."""
