"""What every session of ours has, whatever the database's defaults are."""

from collections.abc import Callable

from sqlalchemy import text

from tenure.store.connect import engine_for
from tests.support.databases import Database


def test_our_sessions_read_committed_whatever_the_database_says(make_database: Callable[[], Database]) -> None:
    database = make_database()  # one of its own: the default would stay
    with database.engine.begin() as connection:
        connection.execute(text(f"alter database {database.name} set default_transaction_isolation = 'serializable'"))
    with engine_for(database.url, application="level").connect() as connection:
        level = connection.execute(text("select current_setting('transaction_isolation')")).scalar_one()
    assert level == "read committed"
