"""The end of a task leaves the indexes of its activity alone: a HOT update."""

from tenure.store.hot import HotSession
from tests.support import tasks
from tests.support.databases import Database

COUNT = 20
_UPDATES = "select array[n_tup_upd, n_tup_hot_upd] from pg_stat_xact_user_tables where relname = 'activities'"


def test_an_end_is_a_hot_update_of_its_activity(database: Database, session: HotSession) -> None:
    ids = [tasks.submit(database) for _ in range(COUNT)]
    with session.driver.cursor() as cursor:
        cursor.execute("begin")
        try:
            cursor.execute(_UPDATES)  # what earlier tests of this session have not reported yet
            before = cursor.fetchone()[0]
            for task_id in ids:
                assert tasks.ends(session, tasks.claimed(session, task_id).lease, tasks.SUCCEEDED)
            cursor.execute(_UPDATES)
            updates, hot = (now - then for now, then in zip(cursor.fetchone()[0], before, strict=True))
        finally:
            cursor.execute("commit")
    assert (updates, hot) == (COUNT, COUNT)
