"""An import of objects by pages: what items cost is measured in a run that does what runs do."""

from __future__ import annotations

import resource
import time
from typing import Literal

from pydantic import BaseModel
from sqlalchemy import Connection

from bench.kinds.noop import QUEUE
from tenure.model.items import Item
from tenure.model.kinds import kind
from tenure.runtime.attempt import Attempt
from tenure_records import put_objects

PAGE = 500


class Import(BaseModel):
    """`items`: one for each object, for each object in error (one of a hundred, the others counted), or none."""

    class_name: str
    first: int
    objects: int
    items: Literal["each", "errors", "none"]


class Cursor(BaseModel):
    done: int = 0


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@kind("bench.import", queue=QUEUE, params=Import, run_limit=3600)
def importing(attempt: Attempt, params: Import) -> dict[str, float]:
    """Answers seconds in all, seconds spent on items, and by how many MiB the process grew at most after its first page."""
    attempt.begin(total=params.objects)
    cursor, on_items, grown_from, began = Cursor(), 0.0, 0.0, time.perf_counter()
    while cursor.done < params.objects:
        keys = [
            f"n-{n}" for n in range(params.first + cursor.done, params.first + min(cursor.done + PAGE, params.objects))
        ]
        page = [(key, _city(key)) for key in keys]
        with attempt.transaction() as tx:
            put_objects(tx, params.class_name, page)
            before = time.perf_counter()
            _record(attempt, tx, params, keys)
            on_items += time.perf_counter() - before
            cursor = attempt.checkpoint(tx, Cursor(done=cursor.done + len(keys)), processed=len(keys))
        grown_from = grown_from or peak_mib()
    return {"seconds": time.perf_counter() - began, "on_items": on_items, "grown_mib": peak_mib() - grown_from}


def _record(attempt: Attempt, tx: Connection, params: Import, keys: list[str]) -> None:
    if params.items == "each":
        attempt.items(tx, (Item("added", "city", key, f"City {key}") for key in keys))
    elif params.items == "errors":
        wrong = [key for key in keys if key.endswith("99")]
        attempt.items(tx, (Item("added", "city", key, error="Odd", message="an odd one") for key in wrong))
        attempt.count(tx, added=len(keys) - len(wrong))


def _city(key: str) -> dict[str, object]:
    number = int(key[2:])
    return {
        "name": f"City {number}", "country": chr(65 + number % 26), "latitude": number % 90, "longitude": number % 180,
        "population": {"city": number * 37 % 900_000, "suburbs": number * 11 % 400_000},
        "climate": {"january": number % 40 - 15.5, "july": number % 25 + 10.25}, "alternate_names": [f"Alias {number}"],
    }  # fmt: skip
