"""retry: a new task linked to an ended one."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

from tenure import client, registry
from tenure.model.errors import InvalidParams, KindIsInternal, NoSuchTask, NotTerminal, UnknownKind
from tenure.model.kinds import Kind, KindSpec
from tenure.model.records import Submitted
from tenure.model.states import TERMINAL, State
from tenure.store.hot import HotSession
from tests.store.verbs import arrange
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot

KEEPS = replace(tasks.PLAIN, name="store.keeps", keep_params="the test reads them")
RESUMES = replace(tasks.PLAIN, name="store.retry_resumes", retry_resumes=True)
INTERNAL = replace(tasks.PLAIN, name="store.internal", internal="rebuild")


class Strict(BaseModel):
    a: int


STRICT = replace(tasks.PLAIN, name="store.strict", params=Strict)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kinds of these tests, installed as a package would be."""
    kinds = [Kind(spec, lambda attempt, params: None) for spec in (*tasks.KINDS, STRICT, KEEPS, RESUMES, INTERNAL)]
    monkeypatch.setattr(registry, "load", lambda packages: registry.Registry(kinds))


def retry(database: Database, task_id: UUID, **options: object) -> Submitted:
    with database.engine.begin() as connection:
        return client.retry(connection, task_id, **{"initiator": tasks.ADA, "params": {}, **options})


def failed(database: Database, spec: KindSpec, params: object = None, *, pages: int = 0) -> UUID:
    task_id = tasks.submit(database, spec, params)
    with tasks.worker(database, kinds=[spec]) as session:
        lease = tasks.claimed(session, task_id).lease
        with database.engine.begin() as connection:
            for number in range(pages):
                assert tasks.checkpoint(connection, lease, number)
        assert tasks.ends(session, lease, tasks.FAILED)
    return task_id


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_retry_is_a_new_task_linked_to_the_old(database: Database, session: HotSession, state: State) -> None:
    old = arrange(database, session, state).id
    before = tasks.task(database, old)
    made = retry(database, old, reason="again")
    seen = tasks.task(database, made.id)
    assert made.created
    assert (seen["state"], seen["retry_of"], seen["attempt"], seen["key"]) == ("queued", old, 0, None)
    assert seen["history"][0]["note"] == "again"
    assert tasks.task(database, old) == before, "the old task stays as it ended"


@pytest.mark.parametrize("state", sorted(set(State) - TERMINAL))
def test_a_task_that_has_not_ended_cannot_be_retried(database: Database, session: HotSession, state: State) -> None:
    scene = arrange(database, session, state)
    before = snapshot(database)
    with pytest.raises(NotTerminal, match=str(state)):
        retry(database, scene.id)
    assert changed(before, snapshot(database)) == []


def test_what_the_submission_said_is_said_again(database: Database) -> None:
    options = {"labels": {"a": "b"}, "scope": "s", "priority": 5, "submitter": "me"}
    old = tasks.submit(database, tasks.PLAIN, **options)
    tasks.cancel(database, old)
    seen = tasks.task(database, retry(database, old).id)
    assert {name: seen[name] for name in options} == options


def test_redacted_params_have_to_be_given_again(database: Database) -> None:
    old = failed(database, STRICT, {"a": 1})
    before = snapshot(database)
    with pytest.raises(InvalidParams, match="redacted"):
        retry(database, old, params=None)
    assert changed(before, snapshot(database)) == []
    assert retry(database, old, params={"a": 1}).created


def test_kept_params_are_used_again(database: Database) -> None:
    old = failed(database, KEEPS, {"a": 1})
    assert retry(database, old, params=None).created
    assert tasks.value(database, "select count(*) from task_params where params = '{\"a\": 1}'") == 2


def test_an_unknown_task_an_internal_kind_and_an_unknown_kind_are_refused(database: Database) -> None:
    with pytest.raises(NoSuchTask):
        retry(database, uuid4())
    with database.engine.begin() as connection:
        internal = client.create(connection, INTERNAL, initiator=tasks.ADA).id
        gone = client.create(connection, replace(tasks.PLAIN, name="store.gone"), initiator=tasks.ADA).id
    for task_id, error in ((internal, KindIsInternal), (gone, UnknownKind)):
        tasks.cancel(database, task_id)
        before = snapshot(database)
        with pytest.raises(error):
            retry(database, task_id)
        assert changed(before, snapshot(database)) == []


def test_params_that_no_longer_fit_are_refused(database: Database) -> None:
    old = failed(database, tasks.PLAIN)
    with pytest.raises(InvalidParams):
        retry(database, old, params={"a": "x\0"})


def test_a_retry_starts_from_scratch(database: Database, session: HotSession) -> None:
    old = failed(database, tasks.PLAIN, {"a": 1}, pages=2)
    got = tasks.claimed(session, retry(database, old, params={"a": 1}).id)
    assert (got.cursor, got.sequence) == (None, 0)


def test_a_kind_may_say_that_a_retry_resumes(database: Database) -> None:
    old = failed(database, RESUMES, {"a": 1}, pages=2)
    made = retry(database, old, params={"a": 1}).id
    with tasks.worker(database, kinds=[RESUMES]) as session:
        got = tasks.claimed(session, made)
        assert (got.cursor, got.sequence) == ('{"at": 1}', 2)
        with database.engine.begin() as connection:
            assert tasks.checkpoint(connection, got.lease, 2)
    assert tasks.task(database, made)["counters"]["processed"] == 3
    assert tasks.task(database, old)["counters"]["processed"] == 2


def test_a_retry_of_another_request_resumes_nothing(database: Database) -> None:
    old = failed(database, RESUMES, {"a": 1}, pages=2)
    made = retry(database, old, params={"a": 2}).id
    assert tasks.task(database, made)["checkpoint"] is None
