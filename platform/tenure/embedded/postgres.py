"""The embedded PostgreSQL: TCP on the loopback with SCRAM, no Unix socket (so no path is ever too long for one)."""

import shutil
import signal
import tempfile
from pathlib import Path

from tenure.embedded.errors import EmbeddedStartFailed
from tenure.embedded.ports import LOOPBACK
from tenure.embedded.server import Server, end_orphan
from tenure.embedded.servers import write_private

USER = DATABASE = "tenure"
# A fixed collation: the same order of text on every system, and no system locale needed.
_INITDB = (
    *("-U", USER, "--auth=scram-sha-256", "-E", "UTF8"),
    *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"),
)
_CONNECTIONS = 200
_PID, _PORT, _STATUS = 0, 3, 7  # lines of postmaster.pid; pg_ctl waits for the status, too


class Postgres(Server):
    name = "postgres"
    stop_signal = signal.SIGINT  # fast stop; SIGTERM would wait for clients

    @property
    def url(self) -> str:
        return f"postgresql+psycopg2://{USER}:{self.place.password}@{LOOPBACK}:{self.port}/{DATABASE}"

    def prepare(self) -> None:
        for part in self.place.data.glob("postgres.part-*"):  # left by a killed initdb
            shutil.rmtree(part, ignore_errors=True)
        if not self.directory.exists():
            self._initialise()
        self._check_version()
        self.place.launcher.own(self.directory)
        end_orphan(self.directory / "postmaster.pid", ("-D", str(self.directory)), self.stop_signal)

    def command(self, port: int) -> list[str | Path]:
        settings = [f"port={port}", f"listen_addresses={LOOPBACK}", "unix_socket_directories="]
        settings.append(f"max_connections={_CONNECTIONS}")
        if not self.place.durable:
            # Commits still reach the kernel, so a killed server loses nothing; a power cut may lose all.
            settings += ["fsync=off", "full_page_writes=off"]
        options = [part for setting in settings for part in ("-c", setting)]
        return [self.place.binaries.postgres, "-D", self.directory, *options]

    def ready(self, port: int) -> bool:
        try:
            lines = (self.directory / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return False
        if len(lines) <= _STATUS:
            return False
        return (lines[_PID], lines[_PORT], lines[_STATUS].strip()) == (str(self.pid), str(port), "ready")

    def _initialise(self) -> None:
        """Make the cluster and its database under another name, then rename: half-made never looks finished."""
        part = Path(tempfile.mkdtemp(prefix="postgres.part-", dir=self.place.data))
        secret = self.place.data / "postgres.part-password"
        write_private(secret, self.place.password)
        for path in (part, secret):
            self.place.launcher.own(path)
        initdb: list[str | Path] = [self.place.binaries.initdb, "-D", part, f"--pwfile={secret}", *_INITDB]
        if not self.place.durable:
            initdb.append("--no-sync")
        try:
            self._must_run(initdb)
            single = ("--single", "-c", "exit_on_error=on", "-D", part, "postgres")
            self._must_run([self.place.binaries.postgres, *single], f"CREATE DATABASE {DATABASE}\n")
            part.rename(self.directory)
        finally:
            secret.unlink(missing_ok=True)
            shutil.rmtree(part, ignore_errors=True)

    def _must_run(self, command: list[str | Path], text: str = "") -> None:
        done = self.place.launcher.run(command, text)
        if done.returncode:
            log = self.place.logs / "initdb.log"
            write_private(log, done.stdout + done.stderr)
            raise EmbeddedStartFailed(f"the embedded PostgreSQL could not be set up; {log} says why")

    def _check_version(self) -> None:
        try:
            made_by = (self.directory / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise EmbeddedStartFailed(f"{self.directory} is no PostgreSQL data directory: move it away") from None
        installed = self.place.launcher.run([self.place.binaries.postgres, "--version"]).stdout
        if installed.rsplit(" ", 1)[-1].split(".")[0] != made_by:
            raise EmbeddedStartFailed(
                f"{self.directory} was made by PostgreSQL {made_by[:10]} and {installed.strip()[:60]} is installed: "
                "install the tenure[embedded] it was made with, or remove it to begin anew"
            )
