"""The process that owns the servers of one home: `python -m tenure.embedded.supervisor HOME [--not-durable]`.

It starts them, restarts one that died, and stops them when nobody holds a lease any more. It never serves clients.
"""

import argparse
import io
import os
import signal
import sys
import time
from pathlib import Path

from tenure.embedded import locks, place
from tenure.embedded.errors import EmbeddedStartFailed
from tenure.embedded.postgres import Postgres
from tenure.embedded.server import Server
from tenure.embedded.servers import Home, Servers
from tenure.embedded.valkey import Valkey
from tenure.model.errors import TenureError

LEASE_CHECK = 0.2
_STABLE_AFTER = 5.0
_DEATHS_IN_A_ROW = 3


def supervise(home: Home, *, durable: bool, timeout: float) -> None:
    """Own `home` until its last lease goes. The caller holds the supervisor lock."""
    settled = place.settle(home, durable=durable)
    postgres, valkey = Postgres(settled), Valkey(settled)
    try:
        postgres.start(timeout)
        valkey.start(timeout)
        home.publish(Servers(postgres.url, valkey.url, settled.launcher.mode, os.getpid()))
        _keep(home, (postgres, valkey), timeout)
    finally:
        home.info.unlink(missing_ok=True)
        valkey.stop()
        postgres.stop()


def _keep(home: Home, servers: tuple[Server, ...], timeout: float) -> None:
    lease = locks.open_lock(home.lease)
    deaths, stable_at = 0, 0.0
    # Once taken, the lock is kept to the end of this process: newcomers wait until the servers are down.
    while not locks.try_lock(lease):
        for server in servers:
            if server.alive():
                continue
            deaths = deaths + 1 if time.monotonic() < stable_at else 1
            if deaths > _DEATHS_IN_A_ROW:
                raise EmbeddedStartFailed(f"the embedded {server.name} keeps ending; {server.log} says why")
            server.start(timeout)
            stable_at = time.monotonic() + _STABLE_AFTER
        time.sleep(LEASE_CHECK)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tenure.embedded.supervisor")
    parser.add_argument("home", type=Path)
    parser.add_argument("--not-durable", action="store_true")
    parser.add_argument("--timeout", type=float, default=60.0)
    options = parser.parse_args()
    home = Home(options.home)
    lock = locks.open_lock(home.supervisor)
    if not locks.wait_lock(lock, time.monotonic() + 1):  # a probe holds it for an instant only
        return 0
    # The caller goes on as soon as the lock is ours: it passes to the child, which is nobody's child to wait for.
    if os.fork():
        os._exit(0)
    _write_pid(lock)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        supervise(home, durable=not options.not_durable, timeout=options.timeout)
    except TenureError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _write_pid(lock: io.FileIO) -> None:
    """For people and tests who look; nothing decides by it."""
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n".encode())


def _leave(*_: object) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
