"""Bad rows that come before, during, after the scan, or race the activation: a strict class never holds one."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, text

from tenure_records import activate, create_class, delete_object, propose_schema, put_object, put_objects
from tenure_records.errors import ActivationRefused, ClassBusy, RevisionConflict, SchemaViolation
from tenure_records.schemas import activation, scans
from tests.support.attempt_faults import Point, fault
from tests.support.databases import Database
from tests.support.records import CITY, ME, scalar
from tests.support.schemas import NAMED, activated, asked, assert_all_fit, proposed, scanned, standing, stored, task
from tests.support.schemas import records_schema_validation as kind
from tests.support.slot import Bench
from tests.support.tasks import scale
from tests.support.until import until

GOOD, BAD = {"name": "x"}, {"name": 1}


def test_bad_rows_written_behind_the_cursor_of_a_running_scan_are_known(
    records: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "PAGE_ROWS", 4)
    stored(records, {f"k{n:02}": GOOD for n in range(12)})
    proposed(records)
    task_id = asked(records, batch_rows=2)
    bench = Bench(records, kind)
    # The fourth batch is read: the first page is committed or about to be, and its objects become bad, deleted, or new.
    with fault(bench.engine, Point("ahead", 4), lambda: stored(records, {"k00": BAD, "k01": {}, "new": BAD})) as met:
        bench.run(task_id)
    bench.close()
    assert met
    assert task(records, task_id)["state"] == "succeeded"
    assert (standing(records).invalid, standing(records).unscanned, standing(records).changed) == (3, 0, 0)
    with pytest.raises(ActivationRefused):
        activated(records)
    stored(records, {"k00": GOOD, "k01": GOOD, "new": GOOD})
    activated(records)
    assert assert_all_fit(records, NAMED) == 13


def test_a_bad_row_written_before_the_proposal_but_committed_after_it_is_no_way_in(records: Database) -> None:
    """The proposal waits for it: no write of the class is open that the proposal's scan could miss."""
    stored(records, {"a": GOOD})
    with records.engine.connect() as writer:
        put_object(writer, CITY, "b", BAD)
        proposing = threading.Thread(target=proposed, args=(records,))
        proposing.start()
        waiting(records)
        writer.commit()
    proposing.join()
    scanned(records)
    assert (standing(records).valid, standing(records).invalid) == (1, 1)


def waiting(records: Database) -> None:
    until(lambda: scalar(records, "select exists (select 1 from pg_locks where not granted and locktype = 'advisory')"))


class Steps:
    """An `engine.begin` that does something before its n-th transaction."""

    def __init__(self, records: Database, number: int, act: Callable[[], Any]) -> None:
        self.begun = 0
        self._records, self._number, self._act = records, number, act

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        self.begun += 1
        if self.begun == self._number:
            self._act()
        with self._records.engine.begin() as connection:
            yield connection


def test_an_activation_takes_five_transactions(records: Database) -> None:
    proposed(records)
    steps = Steps(records, 0, lambda: None)
    activate(steps.begin, CITY, mode="strict", initiator=ME)
    assert steps.begun == 5, "look, high water, anti-join, sums, activation: the tests below go through each"


@pytest.mark.parametrize("step", range(1, 6))
@pytest.mark.parametrize("change", ["new", "worse", "behind"])
def test_a_bad_write_between_any_two_steps_is_seen(records: Database, step: int, change: str) -> None:
    stored(records, {"a": GOOD, "b": GOOD})
    proposed(records)
    scanned(records)

    def act() -> None:
        if change == "behind":  # past the writers, so without evidence: the anti-join has to find it
            with records.engine.begin() as connection:
                connection.execute(text("""update record_objects set data = '{}', change_seq = nextval('record_change_seq')
                    where key = 'a'"""))  # fmt: skip
        else:
            stored(records, {"c" if change == "new" else "a": BAD})

    with pytest.raises(ActivationRefused) as refused:
        activate(Steps(records, step, act).begin, CITY, mode="strict", initiator=ME)
    assert (refused.value.tally.invalid, refused.value.tally.changed) == ((0, 1) if change == "behind" else (1, 0))
    assert scalar(records, "select status from schema_revisions") == "proposed"


@pytest.mark.parametrize("step", range(1, 6))
def test_a_good_write_between_any_two_steps_is_no_hindrance(records: Database, step: int) -> None:
    stored(records, {"a": GOOD, "b": GOOD})
    proposed(records)
    scanned(records)

    def act() -> None:
        stored(records, {"a": {"name": "y"}, "c": GOOD})
        with records.engine.begin() as connection:
            delete_object(connection, CITY, "b")

    assert activate(Steps(records, step, act).begin, CITY, mode="strict", initiator=ME).mode == "strict"
    assert assert_all_fit(records, NAMED) == 2


@pytest.mark.parametrize("step", [2, 5])
def test_an_open_write_is_waited_for_and_seen(records: Database, step: int) -> None:
    stored(records, {"a": GOOD})
    proposed(records)
    scanned(records)
    writer = records.engine.connect()
    outcome: list[str] = []

    def act() -> None:
        put_object(writer, CITY, "a", BAD)

    def activating() -> None:
        try:
            activate(Steps(records, step, act).begin, CITY, mode="strict", initiator=ME)
        except ActivationRefused:
            outcome.append("refused")

    thread = threading.Thread(target=activating)
    thread.start()
    waiting(records)
    writer.commit()
    thread.join()
    writer.close()
    assert outcome == ["refused"]


def test_writers_that_hold_the_class_too_long_are_named_and_nothing_is_changed(
    records: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activation, "_PATIENCE", text("set local lock_timeout = '20ms'"))
    proposed(records)
    with records.engine.connect() as writer:
        put_object(writer, CITY, "a", GOOD)
        with pytest.raises(ClassBusy, match="without committing"):
            activated(records)
    assert scalar(records, "select status from schema_revisions") == "proposed"


@pytest.mark.parametrize("step", range(2, 6))
def test_a_proposal_between_two_steps_stops_the_activation(records: Database, step: int) -> None:
    proposed(records)
    steps = Steps(records, step, lambda: proposed(records, {"required": ["size"]}))
    with pytest.raises(RevisionConflict, match="look at it again"):
        activate(steps.begin, CITY, mode="strict", initiator=ME)
    assert scalar(records, "select array_agg(status order by number) from schema_revisions") == ["retired", "proposed"]


def test_no_race_leaves_a_bad_row_in_a_strict_class(records: Database) -> None:
    """A writer beside an activation, from before its first step to after its last."""
    seen: Counter[str] = Counter()
    chance = random.Random(7)
    for number in range(scale(500, 40)):
        seen[race(records, f"race {number}", chance)] += 1
    assert set(seen) == {"activated", "refused"}, seen
    print(f"\n{sum(seen.values())} races: {dict(seen)}")


def race(records: Database, name: str, chance: random.Random) -> str:
    """The writer starts as the activation begins one of its steps, or has ended (6): by its progress, not by the clock."""
    with records.engine.begin() as connection:
        class_id = create_class(connection, name).id
        propose_schema(connection, name, NAMED, initiator=ME)
        put_objects(connection, name, [(key, GOOD) for key in "abc"])
    start = threading.Event()
    step, hold = chance.randrange(1, 7), chance.choice([0, 0.001])
    bad = [chance.choice([("a", BAD), ("new", {}), ("b", {"name": None})]) for _ in range(2)]

    def write() -> None:
        start.wait()
        for key, data in bad:
            try:
                with records.engine.begin() as connection:
                    put_object(connection, name, key, data)
                    threading.Event().wait(hold)
            except SchemaViolation:
                pass  # strict by now

    writer = threading.Thread(target=write)
    writer.start()
    try:
        activate(Steps(records, step, start.set).begin, name, mode="strict", initiator=ME)
        ended = "activated"
    except ActivationRefused:
        ended = "refused"
    start.set()
    writer.join()
    wrong = scalar(records, """select count(*) from record_objects where class_id = :id
        and jsonb_typeof(data -> 'name') is distinct from 'string'""", id=class_id)  # fmt: skip
    assert wrong == 0 if ended == "activated" else wrong > 0
    return ended
