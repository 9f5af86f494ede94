"""A TCP proxy before PostgreSQL that loses a connection at a chosen byte, as networks and failovers do."""

import socket
import threading
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Self

from sqlalchemy import make_url

from tenure.runtime.shared import readable

CHUNK = 65_536
PATIENCE_S = 10.0


class Where(Enum):
    REQUEST = "before the whole statement has reached the server"
    AT_ONCE = "the server has the statement, and may still be at it"
    ANSWER = "the server has answered, the client has a part of it"


@dataclass
class Cut:
    """One loss: of a connection whose traffic holds `marker`, after so many bytes of the request or of the answer.

    More bytes than there are: at the end of that packet. `skip` lets that many such statements pass first.
    """

    marker: bytes
    where: Where
    after: int = 0
    skip: int = 0


class Proxy:
    """Listens on a port of its own on loopback; `url` is the database's through it. One cut is armed at a time."""

    def __init__(self, url: str) -> None:
        target = make_url(url)
        self._target = (str(target.host), int(target.port or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = target.set(host="127.0.0.1", port=self._listener.getsockname()[1]).render_as_string(False)
        self._cut: Cut | None = None
        self._lock = threading.Lock()
        self.cuts = 0
        self.statements: list[bytes] = []  # all that came through, BEGIN and COMMIT too
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def arm(self, cut: Cut) -> None:
        self._cut = cut

    def disarm(self) -> bool:
        """Whether the armed cut was still to come."""
        with self._lock:
            left, self._cut = self._cut, None
        return left is not None

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed: the test is over
            threading.Thread(target=self._serve, args=(client,), name="proxied", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._pump(client, server)
            except OSError:
                return  # one end has gone, which is for the other to find out

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        left: int | None = None  # bytes of the answer still to be passed on, once a cut is under way
        while True:
            for fd in readable([client.fileno(), server.fileno()], None):
                if fd == client.fileno():
                    data = client.recv(CHUNK)
                    if data[:1] == b"Q":  # the driver sends one simple query at a time
                        self.statements.append(data[5:-1])
                    cut = self._due(data)
                    server.sendall(data[: cut.after] if cut and cut.where is Where.REQUEST else data)
                    if cut and cut.where is not Where.ANSWER:
                        return
                    left = cut.after if cut else left
                else:
                    data = server.recv(CHUNK)
                    client.sendall(data if left is None else data[:left])
                    if left is not None and left <= len(data):
                        return
                    left = None if left is None else left - len(data)
                if not data:
                    return

    def _due(self, data: bytes) -> Cut | None:
        with self._lock:
            cut = self._cut
            if cut is None or cut.marker not in data:
                return None
            if cut.skip:
                cut.skip -= 1
                return None
            self._cut = None
            self.cuts += 1
            return cut

    def close(self) -> None:
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
