"""One supervisor per home, shared by leases: who may die, and what is left then."""

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psycopg2
import pytest
import redis

from tenure.embedded import EmbeddedStartFailed, Servers, acquire, ports, running
from tenure.embedded.place import settle
from tenure.embedded.postgres import Postgres
from tenure.embedded.servers import Home
from tenure.embedded.valkey import Valkey
from tests.support.homes import Holder, kill, plant, processes, running_for, supervisor_of
from tests.support.until import until


@pytest.fixture
def new_home(scratch: Path) -> Path:
    """A home that does not exist yet."""
    return scratch / "home"


@pytest.fixture
def home(new_home: Path, seed: Path) -> Path:
    """A home with a database in it, and nothing running."""
    plant(seed, new_home)
    return new_home


def query(servers: Servers, statement: str) -> object:
    connection = psycopg2.connect(servers.database_url.replace("+psycopg2", ""))
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone() if cursor.description else None
    finally:
        connection.close()


def ping(servers: Servers) -> bool:
    with redis.Redis.from_url(servers.broker_url) as client:
        return bool(client.ping())


def test_a_second_lease_shares_the_servers(home: Path) -> None:
    with acquire(home, durable=False) as first, acquire(home, durable=False) as second:
        assert first.servers == second.servers == running(home)
        first.release()
        assert query(second.servers, "select current_user, current_database()") == ("tenure", "tenure")
        assert query(second.servers, "select current_setting('max_connections')") == ("200",)
        assert ping(second.servers)
    until(lambda: running(home) is None)


def test_durable_servers_keep_everything_over_a_restart_and_come_back_on_the_same_ports(new_home: Path) -> None:
    with acquire(new_home) as lease:
        before = lease.servers
        assert query(before, "select current_setting('fsync'), current_setting('synchronous_commit')") == ("on", "on")
        query(before, "create table kept as select 1")
        with redis.Redis.from_url(before.broker_url) as client:
            client.lpush("queue", "message")
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    until(lambda: not running_for(new_home))
    with acquire(new_home) as lease:
        assert (lease.servers.database_url, lease.servers.broker_url) == (before.database_url, before.broker_url)
        assert query(lease.servers, "select count(*) from kept") == (1,)
        with redis.Redis.from_url(before.broker_url) as client:
            assert client.lrange("queue", 0, -1) == [b"message"]


def test_the_servers_outlive_one_killed_holder_but_not_the_last(home: Path) -> None:
    with Holder(home) as one, Holder(home) as other:
        assert one.addresses() == other.addresses()
        servers = running(home)
        assert servers
        one.kill()
        assert query(servers, "select 1") == (1,)
        assert running(home) == servers
        other.kill()
        until(lambda: not running_for(home), 5)
    assert running(home) is None


def test_ctrl_c_in_the_terminal_of_a_holder_does_not_reach_the_servers(home: Path) -> None:
    with Holder(home, start_new_session=True) as starter:
        starter.addresses()
        with acquire(home, durable=False) as lease:
            os.killpg(starter.process.pid, signal.SIGINT)
            assert starter.process.wait(10) != 0
            assert query(lease.servers, "select 1") == (1,)
            assert running(home) == lease.servers


def test_a_remembered_port_that_is_taken_by_now_is_left_alone(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        for name in ("postgres", "valkey"):
            (home / f"{name}.port").write_text(str(taken))
        with acquire(home, durable=False) as lease:
            assert str(taken) not in lease.servers.database_url + lease.servers.broker_url
            assert query(lease.servers, "select 1") == (1,)


def test_a_port_lost_between_the_look_and_the_start_is_replaced(
    scratch: Path, seed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(seed, scratch / "home")
    place = settle(Home(scratch / "home"), durable=False)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        for server in (Postgres(place), Valkey(place)):
            looks = iter((taken, None))
            with monkeypatch.context() as patched:
                patched.setattr(ports, "remembered", lambda _, looks=looks: next(looks))
                server.start()
            try:
                assert server.port not in (None, taken)
            finally:
                server.stop()


def test_a_killed_supervisor_takes_its_servers_with_it_and_the_next_one_finds_the_data(home: Path) -> None:
    with acquire(home, durable=False) as left_over:
        query(left_over.servers, "create table kept as select 1")
        kill(left_over.servers.pid)
        until(lambda: running(home) is None)
        with acquire(home, durable=False) as lease:
            assert lease.servers.pid != left_over.servers.pid
            assert lease.servers.database_url == left_over.servers.database_url
            assert query(lease.servers, "select count(*) from kept") == (1,)
            assert ping(lease.servers)
    until(lambda: not running_for(home))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_supervisor_leaves_nothing_running_even_if_nobody_starts_again(home: Path) -> None:
    with acquire(home, durable=False) as lease:
        kill(lease.servers.pid)
        until(lambda: not running_for(home), 5)
    assert running(home) is None


@pytest.mark.parametrize("mark", ["bin/postgres", "valkey-server"])
def test_a_killed_server_is_started_again_for_those_who_hold_a_lease(home: Path, mark: str) -> None:
    with acquire(home, durable=False) as lease:
        query(lease.servers, "create table kept as select 1")
        (victim,) = [process.pid for process in running_for(home) if mark in process.arguments]
        kill(victim)

        def back() -> bool:
            try:
                return ping(lease.servers) and query(lease.servers, "select count(*) from kept") == (1,)
            except (redis.RedisError, psycopg2.OperationalError):
                return False

        until(lambda: any(mark in p.arguments and p.pid != victim for p in running_for(home)))
        assert until(back)
        assert running(home) == lease.servers


def test_a_stale_pid_file_that_names_a_living_stranger_is_cleared(home: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"], cwd=home)
    try:
        for name in ("postgres/postmaster.pid", "valkey/valkey.pid"):
            (home / name).write_text(f"{stranger.pid}\n{home / 'postgres'}\n1\n1\n\n127.0.0.1\n\nready   \n")
        with acquire(home, durable=False) as lease:
            assert query(lease.servers, "select 1") == (1,)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_killed_initdb_is_done_again_from_the_start(new_home: Path) -> None:
    with Holder(new_home) as holder:
        until(lambda: any("bin/initdb" in process.arguments for process in running_for(new_home)), pace=0.005)
        supervisor = supervisor_of(new_home)
        assert supervisor
        kill(supervisor, *(process.pid for process in running_for(new_home)))
        assert holder.process.wait(10) == 1
    assert list(new_home.glob("postgres.part-*"))
    assert not (new_home / "postgres").exists()
    with acquire(new_home, durable=False) as lease:
        assert query(lease.servers, "select 1") == (1,)
        assert not list(new_home.glob("postgres.part-*"))


def test_racing_starters_share_one_supervisor(new_home: Path) -> None:
    holders = [Holder(new_home) for _ in range(4)]
    try:
        assert len({tuple(holder.addresses()) for holder in holders}) == 1
        assert len([process for process in running_for(new_home) if "supervisor" in process.arguments]) == 1
    finally:
        for holder in holders:
            holder.kill()


def test_a_path_too_long_for_a_socket_and_with_odd_characters_will_do(scratch: Path, seed: Path) -> None:
    home = scratch / ("long" * 40) / 'sp ace "quoted" ünï'
    plant(seed, home)
    with acquire(home, durable=False) as lease:
        assert query(lease.servers, "select 1") == (1,)
        assert ping(lease.servers)


def test_whatever_holds_a_secret_is_private_and_no_process_shows_it(new_home: Path) -> None:
    with acquire(new_home, durable=False) as lease:
        password = (new_home / "password").read_text()
        assert password in lease.servers.database_url
        assert password not in repr(lease.servers)
        assert not [process.pid for process in processes() if password in process.arguments]
        assert stat.S_IMODE(new_home.stat().st_mode) == 0o700
        for path in new_home.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
        secret = password.encode()
        assert not [log for log in new_home.glob("*.log") if secret in log.read_bytes()]
        with pytest.raises(psycopg2.OperationalError):
            query(Servers(lease.servers.database_url.replace(password, "wrong"), "", "", 0), "select 1")


def test_data_of_another_major_version_is_refused_with_one_line(home: Path) -> None:
    (home / "postgres" / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedStartFailed, match=r"made by PostgreSQL 17 and .*18.* is installed") as refused:
        acquire(home)
    assert "\n" not in str(refused.value)
    assert running(home) is None


def test_a_home_that_others_can_write_to_is_refused(new_home: Path) -> None:
    new_home.mkdir()
    new_home.chmod(0o777)
    with pytest.raises(EmbeddedStartFailed, match="can be written by other users"):
        acquire(new_home)
    assert list(new_home.iterdir()) == []


def test_a_home_its_group_can_write_to_is_closed_to_the_group(home: Path) -> None:
    home.chmod(0o775)
    with acquire(home, durable=False):
        assert stat.S_IMODE(home.stat().st_mode) == 0o755


def test_nothing_runs_for_a_home_that_does_not_exist(new_home: Path) -> None:
    assert running(new_home) is None
    assert not new_home.exists()


def test_without_the_wheels_the_message_says_what_to_do(new_home: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tenure.embedded import EmbeddedUnavailable, acquire\n"
        "try: acquire(Path(sys.argv[1]))\nexcept EmbeddedUnavailable as error: print(error)"
    )
    platform = Path(sys.modules["tenure"].__path__[0]).parent
    bare = subprocess.run(  # -S: no site-packages, as where the extra is not installed
        [sys.executable, "-S", "-c", program, str(new_home)],
        env={"PYTHONPATH": str(platform)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "install tenure[embedded]" in bare.stdout
    assert "TENURE_DATABASE_URL and TENURE_BROKER_URL" in bare.stdout
    assert not new_home.exists()


def test_the_working_directory_neither_helps_nor_harms(home: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    (trap / "tenure").mkdir(parents=True)
    (trap / "tenure" / "__init__.py").write_text("raise SystemExit('taken from the working directory')")
    # The holder itself looks there last; the supervisor it starts must not look there at all.
    with Holder(Path(os.path.relpath(home, trap)), cwd=trap, env={"PYTHONSAFEPATH": "1"}) as holder:
        assert len(holder.addresses()) == 4
        assert running(home)
