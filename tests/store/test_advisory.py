"""Every advisory key is one thing's: two that share it would skip each other's work, or wait for it."""

import re
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

import tenure
from tenure import client
from tenure.store import advisory, housekeeping
from tests.support import tasks
from tests.support.databases import Database

SINGLE = {
    "migrating": advisory.MIGRATING,
    "notifying": advisory.NOTIFYING,
    "claiming": advisory.CLAIMING,
    "partitioning": advisory.PARTITIONING,
    "applying": advisory.APPLYING,
}
SPACES = {"active limits": advisory.ACTIVE_LIMITS, "record classes": advisory.RECORD_CLASSES}


def test_no_two_uses_share_an_advisory_key() -> None:
    assert len(set(SINGLE.values())) == len(SINGLE)
    assert len(set(SPACES.values())) == len(SPACES)
    assert all(0 < key < 1 << 32 for key in SINGLE.values()), "a single key has no upper half: it is in no space"
    assert all(0 < space < 1 << 31 for space in SPACES.values())


@pytest.mark.parametrize("which", [-1, 1 << 32])
def test_a_member_that_does_not_fit_its_space_is_refused(which: int) -> None:
    with pytest.raises(ValueError, match="does not fit 32 bits"):
        advisory.within(advisory.RECORD_CLASSES, which)


def test_no_other_module_has_an_advisory_key_of_its_own() -> None:
    platform = Path(tenure.__file__).parent.parent
    found = {
        path.name for path in platform.glob("tenure*/**/*.py") if re.search(r"0x7e1", path.read_text(), re.IGNORECASE)
    }
    assert found == {"advisory.py"}


def test_the_claims_in_the_database_use_the_key_that_is_kept_for_them(database: Database) -> None:
    source = tasks.value(database, "select prosrc from pg_proc where proname = 'claim_refusal'")
    assert f"gate constant bigint := {advisory.CLAIMING};" in source


def test_a_submitters_open_transaction_is_not_taken_for_another_maker_of_partitions(database: Database) -> None:
    with database.engine.begin() as caller:
        client.submit(caller, tasks.PLAIN, {}, initiator=tasks.ADA)
        with database.engine.connect() as connection, pytest.raises(OperationalError, match="lock timeout"):
            housekeeping.make_partitions(connection)
    with database.engine.connect() as connection, connection.begin() as undone:
        assert housekeeping.make_partitions(connection) > 0, "the test database has few"
        undone.rollback()
