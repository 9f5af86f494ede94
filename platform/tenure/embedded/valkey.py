"""The embedded Valkey: loopback only, password from a private file, nothing evicted."""

import signal
import socket
from pathlib import Path

from tenure.embedded.ports import LOOPBACK
from tenure.embedded.server import Server, end_orphan
from tenure.embedded.servers import write_private


class Valkey(Server):
    name = "valkey"
    stop_signal = signal.SIGTERM

    @property
    def url(self) -> str:
        return f"redis://:{self.place.password}@{LOOPBACK}:{self.port}/0"

    def prepare(self) -> None:
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self.place.launcher.own(self.directory)
        end_orphan(self._pid_file, (str(self._configuration),), self.stop_signal)

    def command(self, port: int) -> list[str | Path]:
        settings = {
            "bind": LOOPBACK,
            "port": str(port),
            "requirepass": self.place.password,
            "dir": _quoted(self.directory),
            "pidfile": _quoted(self._pid_file),
            "set-proc-title": "no",  # our own arguments are how a left-over process is told from a stranger
            "logfile": '""',
            "save": '""',
            "appendonly": "yes" if self.place.durable else "no",
            "maxmemory-policy": "noeviction",
        }
        write_private(self._configuration, "".join(f"{name} {value}\n" for name, value in settings.items()))
        self.place.launcher.own(self._configuration)
        return [self.place.binaries.valkey_server, self._configuration]

    def ready(self, port: int) -> bool:
        # The password proves that it is our server which answers on that port.
        try:
            with socket.create_connection((LOOPBACK, port), 1) as connection:
                connection.sendall(f"AUTH {self.place.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2 and (got := connection.recv(256)):
                    answer += got
        except OSError:
            return False
        return answer == b"+OK\r\n+PONG\r\n"

    @property
    def _configuration(self) -> Path:
        return self.directory / "valkey.conf"

    @property
    def _pid_file(self) -> Path:
        return self.directory / "valkey.pid"


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
