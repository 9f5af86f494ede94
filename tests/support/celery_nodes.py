"""Nodes of pytest-celery over local processes: the plugin only asks its containers for the methods here, not for Docker."""

import signal as signals
from typing import Any

import kombu.pools

from tests.support.servers import OwnServers
from tests.support.workers import START_S, Worker


class BrokerProcess:
    """A Valkey of its own, for RedisTestBroker."""

    name = id = "broker"
    status = "running"

    def __init__(self) -> None:
        self._own = OwnServers(postgres=False)

    @property
    def celeryconfig(self) -> dict[str, str]:
        url = self._own.broker_url
        return {"url": url, "host_url": url, "local_url": url}

    def ready(self) -> bool:
        return bool(self._own.broker_url)

    def kill(self, signal: str | int = "SIGKILL") -> None:
        self._own.kill_valkey()

    def restart(self, timeout: float = START_S) -> None:
        self._own.stop_valkey()
        self._own.start_valkey()

    def reload(self) -> None:
        """Nothing is remembered about the process."""

    def teardown(self) -> None:
        # Kombu's pools outlive apps: the next test would be handed a connection to this dead server.
        kombu.pools.reset()
        self._own.close()


class WorkerProcess:
    """A worker of our own app, for CeleryTestWorker. A restart is a new process under the same name; logs add up."""

    id = "test"  # what stands after the @ in the node's name
    celeryconfig: dict[str, Any] = {}  # noqa: RUF012 - the plugin reads an attribute, nobody writes it

    def __init__(self, name: str, database_url: str, broker_url: str, *, pool: str = "prefork") -> None:
        self.name = name
        self._make = lambda: Worker(database_url, broker_url, name=name, pool=pool)
        self._worker = self._make()
        self._earlier = ""

    @property
    def status(self) -> str:
        return "running" if self._worker.process.poll() is None else "exited"

    @property
    def exit_code(self) -> int:
        return self._worker.exit_code()

    def logs(self) -> str:
        return self._earlier + self._worker.text()

    def ready(self) -> bool:
        self._worker.wait_ready()
        return True

    def kill(self, signal: str | int = "SIGKILL") -> None:
        number = signals.Signals[signal] if isinstance(signal, str) else signals.Signals(signal)
        if number is signals.SIGKILL:
            self._worker.kill()
        else:
            self._worker.signal(number)
            self._worker.exit_code()

    def restart(self, timeout: float = START_S) -> None:
        if self.status == "running":
            self._worker.stop()
        self._earlier = self.logs()
        self._worker.close()
        self._worker = self._make()
        self.ready()

    def reload(self) -> None:
        """Nothing is remembered about the process."""

    def teardown(self) -> None:
        self._worker.close()

    def worker_name(self) -> str:
        return self.name

    def worker_queue(self) -> str:
        return "default"
