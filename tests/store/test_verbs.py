"""Every verb from every state, as the transition table says: allowed, or refused without a trace."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tenure.model.records import Lease
from tenure.model.states import ACTIVE, ARROWS, PENDING, TERMINAL, VERBS, Arrow, Guard, State, allowed
from tenure.store.hot import HotSession
from tests.store.verbs import ACTS, TOKEN_OF_NOBODY, Scene, arrange, favour, later
from tests.support import tasks
from tests.support.databases import Database
from tests.support.snapshots import changed, snapshot

# The verbs that leave no event of their own: a checkpoint has its own row.
SILENT = {"checkpoint"}


def test_the_table_and_the_acts_name_the_same_verbs() -> None:
    assert set(ACTS) == set(VERBS)


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_does_what_the_table_says_or_changes_nothing(
    database: Database, session: HotSession, verb: str, state: State
) -> None:
    scene = arrange(database, session, state)
    favour(scene, verb)
    arrow = allowed(verb, state)
    before = snapshot(database)
    accepted = ACTS[verb](scene)
    if arrow is None:
        assert changed(before, snapshot(database)) == []
        return
    assert accepted
    assert tasks.state(database, scene.id) in arrow.targets
    assert verb in SILENT or tasks.task(database, scene.id)["history"][-1]["verb"] == verb
    assert_whole(database, scene)


def assert_whole(database: Database, scene: Scene) -> None:
    """What hangs on a state hangs on it whatever verb led there."""
    seen = tasks.task(database, scene.id)
    state = State(seen["state"])
    assert (seen["lease"] is not None) == (state in ACTIVE)
    assert (seen["timestamps"]["finished_at"] is not None) == (state in TERMINAL)
    assert (seen["timestamps"]["redacted_at"] is not None) == (state in TERMINAL)
    assert tasks.value(database, "select count(*) from task_params") == (state not in TERMINAL)
    status = tasks.value(database, "select status from activities where id = :id", id=seen["activity_id"])
    assert (status == "in_progress") == (state not in TERMINAL)
    hints = tasks.value(database, "select count(*) from task_hints")
    if state is State.QUEUED:
        assert hints >= 1, "a queued task needs a hint"
    ended = tasks.value(database, "select count(*) from task_attempts")
    claims = tasks.value(database, "select count(*) from task_events where verb = 'claim'")
    assert ended == claims - (state in ACTIVE), "one attempt row per claim that is over"


def _unclaimable(scene: Scene) -> None:
    tasks.run_sql(scene.database, "insert into pauses (what, name, paused_by) values ('kind', 'store.plain', 'ada')")


def _was_claimed(scene: Scene) -> None:
    assert scene.session.release(tasks.claimed(scene.session, scene.id).lease)
    tasks.run_sql(scene.database, "update tasks set crashes = 1 where id = :id", id=scene.id)


def _superseded(scene: Scene) -> None:
    pass  # the lease in the scene is made older by the test


# How to break each guard while the state stays right. SUBMISSION is tested in test_submit, and asking for a cancel
# has no guard but the state.
BREAKS: dict[Guard, Callable[[Scene], None]] = {
    Guard.DUE: lambda scene: None,  # nothing has aged
    Guard.LATE: lambda scene: None,
    Guard.LOST: lambda scene: None,  # the lease is fresh
    Guard.ASKED: lambda scene: None,  # nobody asked
    Guard.CLAIMABLE: _unclaimable,
    Guard.UNCLAIMED: _was_claimed,
    Guard.FENCE: _superseded,
}
GUARDED = [
    (arrow, state)
    for arrow in ARROWS
    if arrow.guard in BREAKS
    for state in sorted(arrow.sources, key=list(State).index)
]


@pytest.mark.parametrize("arrow, state", GUARDED, ids=[f"{a.verb}-{s}" for a, s in GUARDED])
def test_a_guard_that_does_not_hold_refuses_an_allowed_verb(
    database: Database, session: HotSession, arrow: Arrow, state: State
) -> None:
    scene = arrange(database, session, state)
    BREAKS[arrow.guard](scene)
    stale = replace(scene, lease=Lease(scene.id, TOKEN_OF_NOBODY, session.holder))
    before = snapshot(database)
    assert not ACTS[arrow.verb](stale)
    assert changed(before, snapshot(database)) == []


def test_every_guard_is_either_broken_here_or_is_the_state_itself() -> None:
    assert set(Guard) - set(BREAKS) == {Guard.SUBMISSION, Guard.NOT_ACTIVE, Guard.ASKS}


def test_a_submission_starts_queued_or_scheduled(database: Database) -> None:
    assert tasks.state(database, tasks.submit(database)) == State.QUEUED
    assert tasks.state(database, tasks.submit(database, at=later())) == State.SCHEDULED


def test_a_claim_of_a_kind_that_plans_validates_until_it_begins(database: Database, session: HotSession) -> None:
    planned = tasks.submit(database, tasks.PLANNED)
    lease = tasks.claimed(session, planned).lease
    assert tasks.state(database, planned) == State.VALIDATING
    assert session.begin(lease)
    assert tasks.state(database, planned) == State.RUNNING
    assert [e["verb"] for e in tasks.task(database, planned)["history"]] == ["submit", "claim", "begin"]


def test_the_states_are_pending_active_or_terminal_and_nothing_leaves_a_terminal_one() -> None:
    assert set(State) == PENDING | ACTIVE | TERMINAL
    assert len(State) == len(PENDING) + len(ACTIVE) + len(TERMINAL)
    assert not any(arrow.sources & TERMINAL for arrow in ARROWS)


def test_a_release_gives_the_attempt_back_and_keeps_the_checkpoint(database: Database, session: HotSession) -> None:
    task_id = tasks.submit(database)
    lease = tasks.claimed(session, task_id).lease
    with database.engine.begin() as connection:
        assert tasks.checkpoint(connection, lease)
    assert session.release(lease)
    seen = tasks.task(database, task_id)
    assert (seen["attempt"], seen["checkpoint"]["cursor"]) == (0, {"at": 1})
    again = tasks.claimed(session, task_id)
    assert (again.attempt, again.cursor, again.sequence) == (1, '{"at": 1}', 1)


def test_retry_later_is_refused_once_no_attempt_is_left(database: Database, session: HotSession) -> None:
    task_id = tasks.submit(database, tasks.ONCE)
    lease = tasks.claimed(session, task_id).lease
    before = snapshot(database)
    assert not session.retry_later(lease, tasks.AGAIN)
    assert changed(before, snapshot(database)) == []


def test_a_crash_does_not_use_up_an_attempt(database: Database, session: HotSession) -> None:
    task_id = tasks.submit(database)
    tasks.claimed(session, task_id)
    tasks.expire_lease(database, task_id)
    favour(Scene(database, session, task_id, Lease(task_id, 0, session.holder), tasks.PLAIN), "recover")
    assert ACTS["recover"](Scene(database, session, task_id, Lease(task_id, 0, session.holder), tasks.PLAIN))
    for _ in range(2):
        assert session.retry_later(tasks.claimed(session, task_id).lease, replace(tasks.AGAIN, available_after=0.0))
        tasks.run_sql(database, "update tasks set available_at = clock_timestamp() - interval '1 s'")
        assert ACTS["promote"](Scene(database, session, task_id, Lease(task_id, 0, session.holder), tasks.PLAIN))
    last = tasks.claimed(session, task_id)
    assert (last.attempt, last.crashes, last.max_attempts) == (4, 1, 3)
    assert not session.retry_later(last.lease, tasks.AGAIN)
