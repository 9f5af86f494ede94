"""An application: it stores its own rows and submits a task in one transaction. It needs PostgreSQL and no broker."""

import sys
from uuid import UUID

from hello_kind import Hello, hello
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tenure import client, settings
from tenure.model.records import Initiator

ME = Initiator(type="service", id="guest-list", name="The guest list")


class Base(DeclarativeBase):
    pass


class Guest(Base):
    __tablename__ = "guests"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    greeting: Mapped[str | None]


def invite(engine: Engine, names: list[str]) -> UUID:
    """Store the guests and submit the task that greets them: both, or neither."""
    with Session(engine) as session, session.begin():
        session.add_all([Guest(name=name) for name in names])
        return client.submit(session, hello, Hello(greeting="Welcome"), initiator=ME).id


if __name__ == "__main__":
    engine = create_engine(settings.load().client_url)
    Base.metadata.create_all(engine)
    print(invite(engine, sys.argv[1:] or ["Ada", "Grace", "Edsger"]))
