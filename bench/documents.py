"""Classes of generated objects for the scan by a schema: some 0.2 kB of JSON each, or some 8 kB. All of them fit."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, text

from tenure_records.classes import create_class

_ROW: dict[str, Any] = {
    "type": "object",
    "required": ["n", "label"],
    "properties": {
        "n": {"type": "integer", "minimum": 1},
        "label": {"type": "string", "maxLength": 40},
        "value": {"type": "string"},
    },
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["number", "name", "country", "latitude", "population"],
    "properties": {
        "number": {"type": "integer", "minimum": 1},
        "name": {"type": "string", "minLength": 1, "maxLength": 80},
        "country": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "latitude": {"type": "number", "minimum": -90, "maximum": 90},
        "population": {
            "type": "object",
            "required": ["city"],
            "properties": {"city": {"type": "integer", "minimum": 0}, "suburbs": {"type": "integer", "minimum": 0}},
            "additionalProperties": False,
        },
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
        "rows": {"type": "array", "maxItems": 200, "items": _ROW},
    },
}
_FILL = text("""insert into record_objects (class_id, key, data)
    select :class_id, 'object-' || i, jsonb_build_object(
        'number', i, 'name', 'City ' || i, 'country', chr(65 + i % 26) || chr(65 + i % 17),
        'latitude', round((random() * 180 - 90)::numeric, 5), 'remark', md5(i::text),
        'population', jsonb_build_object('city', i * 37 % 900000, 'suburbs', i * 11 % 400000),
        'tags', jsonb_build_array('alias ' || i, 'other')) || case when not :large then '{}' else
        jsonb_build_object('rows', (select jsonb_agg(jsonb_build_object(
            'n', j, 'label', md5((i * 100 + j)::text), 'value', random()::text)) from generate_series(1, 88) j)) end
    from generate_series(cast(:first as int), cast(:last as int)) i""")
_STEP = 20_000


def fill(here: Engine, name: str, count: int, *, large: bool) -> None:
    """Make a class of so many objects."""
    with here.begin() as connection:
        class_id = create_class(connection, name).id
    for first in range(1, count + 1, _STEP):
        with here.begin() as connection:
            part = {"class_id": class_id, "first": first, "last": min(first + _STEP - 1, count), "large": large}
            connection.execute(_FILL, part)
