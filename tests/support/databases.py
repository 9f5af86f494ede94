"""A fresh, migrated database per test: cloned from one template, which is migrated once per session."""

import itertools

from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from tenure.migrate import migrate
from tenure.store.connect import dumps

_TEMPLATE = "tenure_template"


class Database:
    """One database. `engine` is made on first use; its pool is wide, because tests race threads."""

    def __init__(self, owner: "Databases", url: str, name: str) -> None:
        self.url = url
        self.name = name
        self._owner = owner
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            options = {"options": "-c TimeZone=UTC", "application_name": "test"}
            self._engine = create_engine(
                self.url, connect_args=options, json_serializer=dumps, pool_size=5, max_overflow=50
            )
        return self._engine

    def accept_connections(self, now: bool) -> None:
        """Refuse new connections, or take them again; those that are open stay."""
        self._owner.execute(f'alter database "{self.name}" allow_connections {str(now).lower()}')

    def drop(self) -> None:
        """Close our sessions, end those of others, and drop it. A second call does nothing."""
        if self._engine is not None:
            self._engine.dispose()
        self._owner.execute(f'drop database if exists "{self.name}" with (force)')


class Databases:
    """All databases of one server. `url` is that of a superuser on it."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._numbers = itertools.count(1)
        self._admin = create_engine(self._url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self.execute(f"create database {_TEMPLATE}")
        migrate(self._url_of(_TEMPLATE))
        # Nobody may be connected to a template while it is cloned.
        self.execute(f"alter database {_TEMPLATE} allow_connections false")

    def create(self) -> Database:
        """A migrated, empty database."""
        name = f"test_{next(self._numbers)}"
        self.execute(f'create database "{name}" template {_TEMPLATE}')
        return Database(self, self._url_of(name), name)

    def execute(self, statement: str) -> None:
        with self._admin.connect() as connection:
            connection.execute(text(statement))

    def _url_of(self, name: str) -> str:
        return self._url.set(database=name).render_as_string(hide_password=False)
