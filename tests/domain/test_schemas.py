"""From a messy class to a strict schema: refused with what stands in the way, activated once it is repaired."""

from io import BytesIO
from typing import Any

import pytest
from sqlalchemy import text

from tenure.model.errors import UsageError
from tenure.model.initiators import SYSTEM
from tenure.model.records import Initiator
from tenure_records import (
    activate,
    drop_class,
    impact,
    list_revisions,
    load,
    propose_schema,
    put_object,
    put_objects,
    revalidate,
    show_schema,
)
from tenure_records.errors import ActivationRefused, NoSuchSchema, RevisionConflict, SchemaRefused, SchemaViolation
from tenure_records.schemas.evidence import Tally
from tests.support.databases import Database
from tests.support.records import CITY, ME, scalar
from tests.support.schemas import (
    NAMED,
    activated,
    assert_all_fit,
    proposed,
    revalidated,
    scanned,
    standing,
    stored,
)


def messy(database: Database, good: int = 30, bad: int = 14) -> None:
    stored(database, {f"good{n:02}": {"name": f"n{n}"} for n in range(good)})
    stored(database, {f"bad{n:02}": {"name": n} if n % 2 else {} for n in range(bad)})


def test_strict_is_refused_with_exact_counts_and_pointers_until_all_is_repaired(records: Database) -> None:
    messy(records)
    proposed(records)
    done = scanned(records)
    assert (done["state"], done["result"]["valid"], done["result"]["invalid"]) == ("succeeded", 30, 14)
    with pytest.raises(ActivationRefused) as refused:
        activated(records)
    assert refused.value.tally == Tally(objects=44, valid=30, invalid=14, uninspectable=0, unscanned=0, changed=0)
    assert len(refused.value.samples) == 10
    found = {one.key: [(f.pointer, f.keyword) for f in one.findings] for one in refused.value.samples}
    assert found["bad00"] == [("/name", "required")]
    assert found["bad01"] == [("/name", "type")]
    assert "14 invalid" in str(refused.value)
    stored(records, {f"bad{n:02}": {"name": "repaired"} for n in range(14)})
    again = scanned(records)
    assert (again["result"]["judged"], again["result"]["reused"]) == (0, 44), "writers have judged what was repaired"
    active = activated(records)
    assert (active.status, active.mode, active.number) == ("active", "strict", 1)
    assert assert_all_fit(records, NAMED) == 44


def test_nothing_is_activated_without_a_scan_and_an_empty_class_needs_none(records: Database) -> None:
    proposed(records)
    assert activated(records).mode == "strict"
    messy(records, good=3, bad=0)
    proposed(records, {"required": ["name"]})
    with pytest.raises(ActivationRefused) as refused:
        activated(records)
    assert refused.value.tally == Tally(3, 0, 0, 0, unscanned=3, changed=0)


def test_an_incremental_scan_judges_only_what_is_missing_or_changed(records: Database) -> None:
    messy(records, good=10, bad=0)
    proposed(records)
    scanned(records)
    with records.engine.begin() as connection:  # past the writers, as a restore might do
        connection.execute(
            text("update record_objects set change_seq = nextval('record_change_seq') where key = 'good03'")
        )
        connection.execute(text("delete from schema_evidence where object_id = 5"))
    assert standing(records) == Tally(10, 8, 0, 0, unscanned=1, changed=1)
    with pytest.raises(ActivationRefused, match="1 unscanned, 1 changed since"):
        activated(records)
    done = scanned(records)
    assert (done["result"]["judged"], done["result"]["reused"]) == (2, 8)
    assert activated(records).mode == "strict"


def test_strict_refuses_a_write_with_pointers_and_writes_nothing(records: Database) -> None:
    proposed(records)
    activated(records)
    with records.engine.begin() as connection:
        put_object(connection, CITY, "a", {"name": "x"})
    with records.engine.begin() as connection:
        with pytest.raises(SchemaViolation, match=r"revision 1: 'b' .at /name: type") as refused:
            put_object(connection, CITY, "b", {"name": 7})
        assert [(f.pointer, f.keyword) for f in refused.value.violations["b"]] == [("/name", "type")]
        with pytest.raises(SchemaViolation):
            put_object(connection, CITY, "a", {}, revision=1)
        with pytest.raises(SchemaViolation) as batch:
            put_objects(connection, CITY, [("c", {"name": "fine"}), ("d", {}), ("e", {"name": None})])
        assert {key: [f.pointer for f in found] for key, found in batch.value.violations.items()} == {
            "d": ["/name"], "e": ["/name"],
        }  # fmt: skip
    assert scalar(records, "select array_agg(key) from record_objects") == ["a"]


def test_an_object_shows_at_most_ten_of_its_findings(records: Database) -> None:
    members = {f"m{n:02}": {"type": "string"} for n in range(25)}
    proposed(records, {"properties": members, "required": sorted(members)})
    stored(records, {"a": dict.fromkeys(members, 1)})
    with pytest.raises(ActivationRefused) as refused:
        activated(records)
    assert len(refused.value.samples[0].findings) == 10


def test_advisory_stores_and_counts(records: Database) -> None:
    proposed(records)
    assert activated(records, "advisory").mode == "advisory"
    with records.engine.begin() as connection:
        put = put_objects(connection, CITY, [("a", {"name": "x"}), ("b", {}), ("c", {"name": 1})])
        assert (put.created, put.invalid) == (3, 2)
    assert standing(records) == Tally(3, valid=1, invalid=2, uninspectable=0, unscanned=0, changed=0)
    with pytest.raises(ActivationRefused):
        activated(records, "strict")
    stored(records, {"b": {"name": "y"}, "c": {"name": "z"}})
    assert activated(records, "strict").mode == "strict"
    with records.engine.begin() as connection, pytest.raises(SchemaViolation):
        put_object(connection, CITY, "b", {})


def test_while_a_proposal_is_open_writes_are_judged_by_it_and_refused_by_the_active_one_only(records: Database) -> None:
    proposed(records)
    activated(records)
    proposed(records, {"required": ["size"]})
    stored(records, {"a": {"name": "x"}, "b": {"name": "y", "size": 1}})
    with records.engine.connect() as connection:
        tallies = {one.revision.status: one.tally for one in show_schema(connection, CITY).open}
    assert tallies == {"active": Tally(2, 2, 0, 0, 0, 0), "proposed": Tally(2, 1, 1, 0, 0, 0)}


def test_revalidation_finds_what_an_advisory_schema_was_activated_over(records: Database) -> None:
    messy(records, good=4, bad=2)
    proposed(records)
    activated(records, "advisory")
    assert standing(records).unscanned == 6
    done = revalidated(records)
    assert (done["result"]["valid"], done["result"]["invalid"]) == (4, 2)
    assert standing(records) == Tally(6, 4, 2, 0, 0, 0)


def test_revisions_are_numbered_superseded_and_optimistic(records: Database) -> None:
    first = proposed(records)
    second = proposed(records, {"required": ["size"]})
    with records.engine.begin() as connection:
        with pytest.raises(RevisionConflict, match="is 2, not 1"):
            propose_schema(connection, CITY, NAMED, initiator=ME, revision=1)
        with pytest.raises(RevisionConflict):
            impact(connection, CITY, initiator=ME, revision=1)
    with pytest.raises(RevisionConflict):
        activated(records, "strict", revision=1)
    activated(records, "strict", revision=2)
    third = proposed(records)
    activated(records)
    with records.engine.begin() as connection:
        listed = [(one.number, one.status, one.mode) for one in list_revisions(connection, CITY)]
        assert listed == [(3, "active", "strict"), (2, "retired", "strict"), (1, "retired", None)]
        with pytest.raises(NoSuchSchema, match="no proposed schema"):
            impact(connection, CITY, initiator=ME)
    assert (first.number, second.number, third.number, first.digest) == (1, 2, 3, third.digest)


def test_a_class_without_a_schema_says_so(records: Database) -> None:
    with records.engine.begin() as connection, pytest.raises(NoSuchSchema, match="no active schema"):
        revalidate(connection, CITY, initiator=ME)
    with pytest.raises(NoSuchSchema, match="schema propose"):
        activated(records)
    with pytest.raises(SchemaRefused):
        proposed(records, {"type": "nothing"})


def test_evidence_goes_with_its_object_and_with_its_class(records: Database) -> None:
    from tenure_records import delete_object

    messy(records, good=3, bad=0)
    proposed(records)
    scanned(records)
    with records.engine.begin() as connection:
        delete_object(connection, CITY, "good01")
    assert scalar(records, "select count(*) from schema_evidence") == 2
    with records.engine.begin() as connection:
        drop_class(connection, CITY)
    tables = ("schema_evidence", "schema_scans", "schema_revisions")
    assert [scalar(records, f"select count(*) from {one}") for one in tables] == [0, 0, 0]


@pytest.mark.parametrize("mode", ["advisory", "strict"])
def test_a_change_of_mode_keeps_the_revision(records: Database, mode: Any) -> None:
    proposed(records)
    before = activated(records, "strict")
    after = activated(records, mode)
    assert (after.id, after.mode, after.activated_at) == (before.id, mode, before.activated_at)


LINES = b'{"key": "a", "name": "x"}\n{"key": "b"}\nnot json\n{"key": "c", "name": 1}\n{"key": "d", "name": "y"}\n'


def test_a_load_names_the_lines_that_do_not_fit_and_skip_takes_the_others(records: Database) -> None:
    proposed(records)
    activated(records)
    done = load(records.engine.begin, CITY, BytesIO(LINES), on_error="skip")
    assert [one.line for one in done.errors] == [2, 3, 4]
    assert [one.reason for one in done.errors][::2] == [
        "the object does not fit the schema (at /name: required)", "the object does not fit the schema (at /name: type)",
    ]  # fmt: skip
    assert (done.put.created, done.refused) == (2, 3)
    assert sorted(scalar(records, "select array_agg(key) from record_objects")) == ["a", "d"]


def test_a_load_that_may_not_skip_leaves_nothing_when_one_line_does_not_fit(records: Database) -> None:
    proposed(records)
    activated(records)
    done = load(records.engine.begin, CITY, BytesIO(LINES.replace(b"not json\n", b"")), on_error="abort")
    assert (done.rolled_back, done.refused, [one.line for one in done.errors]) == (True, 2, [2, 3])
    assert scalar(records, "select count(*) from record_objects") == 0


def test_tenure_itself_may_propose_and_activate_and_nobody_unnamed_may(records: Database) -> None:
    with records.engine.begin() as connection:
        assert propose_schema(connection, CITY, NAMED, initiator=SYSTEM).proposer == SYSTEM
    assert activate(records.engine.begin, CITY, mode="strict", initiator=SYSTEM).activator == SYSTEM
    nobody = Initiator("user", "", "x")
    with records.engine.begin() as connection, pytest.raises(UsageError, match="a user needs an id"):
        propose_schema(connection, CITY, NAMED, initiator=nobody)
    with pytest.raises(UsageError, match="a user needs an id"):
        activate(records.engine.begin, CITY, mode="advisory", initiator=nobody)


def test_the_active_schema_is_shown_however_many_proposals_came_after_it(records: Database) -> None:
    proposed(records)
    activated(records)
    with records.engine.begin() as connection:
        for _ in range(110):
            propose_schema(connection, CITY, {"required": ["size"]}, initiator=ME)
        state = show_schema(connection, CITY)
    assert [(one.revision.number, one.revision.status) for one in state.open] == [(111, "proposed"), (1, "active")]
    assert [one.number for one in state.revisions] == list(range(111, 11, -1))
