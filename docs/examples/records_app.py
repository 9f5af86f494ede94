"""Cities as records: a class, two computed fields, and the questions they answer."""

from sqlalchemy import Engine

from tenure.model.records import Initiator
from tenure_records import Filter, Sort, create_class, define_field, find_objects, get_object, put_objects

ME = Initiator("user", "1000", "ada")
CITIES = [
    ("oslo", {"name": "Oslo", "people": {"city": 717_710, "suburbs": 350_000}}),
    ("kyiv", {"name": "Kyiv", "local": "Київ", "people": {"city": 2_952_301}}),
    ("ys", {"name": "Ys", "people": {"city": "drowned"}}),
]


def fill(engine: Engine) -> None:
    """Objects and fields in one transaction; the reindex it makes necessary starts when it commits."""
    with engine.begin() as connection:
        create_class(connection, "city")
        put_objects(connection, "city", CITIES)
        define_field(
            connection,
            "city",
            "shown",
            op="first_non_null",
            paths=["/local", "/name"],
            result_type="string",
            initiator=ME,
        )
        define_field(
            connection, "city", "total", op="sum", paths=["/people/city", "/people/suburbs"], result_type="integer",
            initiator=ME,
        )  # fmt: skip


def one(engine: Engine, key: str) -> tuple[object, object]:
    """Values and error codes of one city."""
    with engine.begin() as connection:
        city = get_object(connection, "city", key, include_computed=True)
    assert city.computed is not None
    return city.computed.values, city.computed.errors


def large(engine: Engine, least: int) -> list[str]:
    """Keys of the cities of at least so many people, largest first, all pages."""
    found: list[str] = []
    after = None
    while True:
        with engine.begin() as connection:
            page = find_objects(
                connection,
                "city",
                where=[Filter("total", "ge", least)],
                order_by=[Sort("total", descending=True)],
                after=after,
                limit=2,
            )
        found += [city.key for city in page.objects]
        if page.after is None:
            return found
        after = page.after
