"""An application that asks for exports: with a key, a deadline and labels; one, or one for every catalog, and waits."""

import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from catalog_kind import Export, export
from sqlalchemy import Engine, ForeignKey, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from tenure import client, settings
from tenure.model.records import Initiator

SHOP = Initiator(type="service", id="shop", name="The shop")


class Base(DeclarativeBase):
    pass


class Catalog(Base):
    __tablename__ = "catalogs"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    products: Mapped[list["Product"]] = relationship()


class Product(Base):
    __tablename__ = "products"
    id: Mapped[int] = mapped_column(primary_key=True)
    catalog_id: Mapped[int] = mapped_column(ForeignKey("catalogs.id"))
    sku: Mapped[str]
    price: Mapped[Decimal]


class ExportLine(Base):
    __tablename__ = "export_lines"
    export: Mapped[UUID] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    line: Mapped[str]


def publish(engine: Engine, catalog: Catalog, day: date) -> client.Submitted:
    """Store the catalog and ask for its export, both or neither; asked again for the same day it is the same task."""
    with Session(engine) as session, session.begin():
        session.add(catalog)
        return client.submit(
            session,
            export,
            Export(catalog=catalog.name),
            initiator=SHOP,
            submitter="shop",
            key=f"{catalog.name} {day:%Y-%m-%d}",
            deadline=timedelta(hours=2),
            labels={"team": "catalog", "day": f"{day:%Y-%m-%d}"},
        )


def export_all(engine: Engine, day: date) -> list[client.Submitted]:
    """Ask for the export of every catalog: a thousand of them are one statement."""
    with Session(engine) as session, session.begin():
        names = session.scalars(select(Catalog.name).order_by(Catalog.name)).all()
        items = [client.Item({"catalog": name}, key=f"{name} {day:%Y-%m-%d}") for name in names]
        return client.submit_many(session, export, items, initiator=SHOP, submitter="shop", deadline=timedelta(hours=2))


def exported(engine: Engine, task_id: UUID) -> dict[str, Any]:
    """Wait for its end; the task as a whole. NotEnded after a minute."""
    return client.wait(engine, task_id, timeout=60)


if __name__ == "__main__":
    engine = create_engine(settings.load().client_url)
    Base.metadata.create_all(engine)
    goods = [Product(sku=sku, price=Decimal("9.90")) for sku in sys.argv[2:] or ["pen", "ink"]]
    made = publish(
        engine, Catalog(name=sys.argv[1] if sys.argv[1:] else "office", products=goods), datetime.now(UTC).date()
    )
    print(made.id, exported(engine, made.id)["result"])
