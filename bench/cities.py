"""A class of generated, city-like objects with five computed fields: some 250 bytes of JSON each."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, text

from tenure.model.records import Initiator
from tenure_records.classes import create_class
from tenure_records.fields import define_field

CLASS = "bench cities"
BENCH = Initiator("service", "bench", "bench")
_FIELDS = (
    ("display_name", "first_non_null", ["/local_name", "/name"], "string"),
    ("people", "sum", ["/population/city", "/population/suburbs"], "integer"),
    ("mean_temperature", "average", ["/climate/january", "/climate/july"], "number"),
    ("located", "all_present", ["/latitude", "/longitude"], "boolean"),
    ("names", "count_present", ["/name", "/local_name", "/alternate_names/0"], "integer"),
)
_FILL = text("""insert into record_objects (class_id, key, data)
    select :class_id, 'city-' || i, jsonb_build_object(
        'name', 'City ' || i, 'local_name', case when i % 3 = 0 then 'Ville ' || i end,
        'country', chr(65 + i % 26) || chr(65 + i % 17), 'timezone', 'Zone/' || i % 400,
        'latitude', round((random() * 180 - 90)::numeric, 5), 'longitude', round((random() * 360 - 180)::numeric, 5),
        'population', jsonb_build_object('city', i * 37 % 900000, 'suburbs', i * 11 % 400000),
        'climate', jsonb_build_object('january', i % 40 - 15 + 0.5, 'july', i % 25 + 10.25),
        'alternate_names', jsonb_build_array('Alias ' || i, 'Other ' || i % 1000))
    from generate_series(cast(:first as int), cast(:last as int)) i""")
_STEP = 20_000


def fill(here: Engine, count: int) -> int:
    """Make the class and its objects, then define the fields: the class id. The last definition's reindex waits."""
    with here.begin() as connection:
        class_id = create_class(connection, CLASS).id
    for first in range(1, count + 1, _STEP):
        with here.begin() as connection:
            here_to = {"class_id": class_id, "first": first, "last": min(first + _STEP - 1, count)}
            connection.execute(_FILL, here_to)
    with here.begin() as connection:
        define(connection)
    return class_id


def define(connection: Connection) -> None:
    """The five fields."""
    for key, op, paths, result_type in _FIELDS:
        define_field(connection, CLASS, key, op=op, paths=paths, result_type=result_type, initiator=BENCH)
