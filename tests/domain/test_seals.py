"""Values from before the seal: their classes are marked, readers are right, and housekeeping rebuilds them."""

from importlib import import_module

from sqlalchemy import text

from tenure_records import create_class, restart_failed
from tenure_workers.kinds.reindex import records_reindex
from tests.support.databases import Database
from tests.support.executing import run
from tests.support.records import ME, computed, defined, put, scalar, state

RENEW = import_module("migrations.versions.0012_seals").RENEW


def test_classes_with_values_from_before_the_seal_are_rebuilt(records: Database) -> None:
    run(records, defined(records), records_reindex)
    put(records, 3)
    with records.engine.begin() as connection:
        create_class(connection, "empty")
        connection.execute(text("update object_computed_data set source_digest = sha256('as it was')"))
        connection.execute(text(RENEW))
        made = restart_failed(connection, initiator=ME)
    assert computed(records, "k2") == ({"total": 2}, True)
    assert len(made) == 1, "a class without values has nothing to renew"
    run(records, made[0].id, records_reindex)
    assert computed(records, "k2") == ({"total": 2}, False)
    assert (state(records).rebuild_status, state(records).evaluation_revision) == ("ready", 2)
    assert (
        scalar(records, "select evaluation_revision from class_computation_state order by class_id desc limit 1") == 0
    )
