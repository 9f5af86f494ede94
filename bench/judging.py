"""Documents judged per second by one process, without the database, beside the library as one would call it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jsonschema_rs

from bench.figures import Figure, Sample
from bench.processes import BenchError
from bench.run import Run
from tenure_records.schemas.judge import compile_schema

PART = "judging"
_SECONDS = 1.0

_TOWN: dict[str, Any] = {
    "type": "object",
    "required": ["name", "country", "lat", "lon"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 200},
        "country": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "lat": {"type": "number", "minimum": -90, "maximum": 90},
        "lon": {"type": "number", "minimum": -180, "maximum": 180},
        "population": {"type": "integer", "minimum": 0},
        "timezone": {"type": "string"},
        "capital": {"type": "boolean"},
        "names": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
    },
    "additionalProperties": False,
}
_COUNTRY: dict[str, Any] = {
    "type": "object",
    "required": ["code", "towns"],
    "properties": {"code": {"type": "string"}, "towns": {"type": "array", "items": {"$ref": "#/$defs/town"}}},
    "$defs": {"town": _TOWN},
}


def measure(run: Run) -> Iterator[Figure]:
    """Fitting documents of 0.2 and 8 kB, and those of which one in four has two findings."""
    count = run.count(5_000)
    towns = [_town(number) for number in range(count)]
    countries = [{"code": "DE", "towns": [_town(number + row) for row in range(46)]} for number in range(count // 50)]
    for name, schema, documents, aim in (("0.2 kB", _TOWN, towns, 60_000), ("8 kB", _COUNTRY, countries, 20_000)):
        texts = [json.dumps(document) for document in documents]
        size = f"{sum(map(len, texts)) / len(texts):,.0f} bytes each"
        judge = compile_schema(schema)
        library = jsonschema_rs.validator_for(schema)
        if not all(judge.valid(text) for text in texts[:50]):
            raise BenchError("the bench's documents must fit their schema")
        run.say(f"judging: {name}")
        raw = _repeated(run, _decoded(library.is_valid), texts)
        ours = _repeated(run, judge.judge, texts)
        against = "json.loads + is_valid, doubles"
        yield Figure(PART, f"{name}, all fit", "documents/s", ours, against, raw, ratio_least=0.8, conditions=f"{size}, one process")  # fmt: skip
        broken = [_broken(document) if number % 4 == 0 else document for number, document in enumerate(documents)]
        texts = [json.dumps(document) for document in broken]
        raw = _repeated(run, _decoded(library.iter_errors), texts)
        ours = _repeated(run, judge.judge, texts)
        yield Figure(PART, f"{name}, one in four breaks two rules", "documents/s", ours, "json.loads + iter_errors, doubles", raw,
                     conditions=f"with findings; aim with the database, on two cores: {aim:,} rows/s")  # fmt: skip


def _decoded(judge: Callable[[Any], Any]) -> Callable[[str], Any]:
    return lambda text: judge(json.loads(text))


def _town(number: int) -> dict[str, Any]:
    return {
        "name": f"Town {number}",
        "country": "DE",
        "lat": round(47 + number % 7_000 / 997, 5),
        "lon": round(7 + number % 7_000 / 991, 5),
        "population": number * 17,
        "timezone": "Europe/Berlin",
        "capital": False,
        "names": [f"Stadt {number}", f"Ville {number}", "a town"],
    }


def _broken(document: dict[str, Any]) -> dict[str, Any]:
    if "towns" in document:
        return {**document, "towns": [_broken(document["towns"][0]), *document["towns"][1:]]}
    return {**{name: value for name, value in document.items() if name != "lat"}, "country": "Germany"}


def _repeated(run: Run, judge: Callable[[str], Any], texts: Sequence[str]) -> Sample:
    return Sample([_rate(judge, texts) for _ in range(run.repeats)])


def _rate(judge: Callable[[str], Any], texts: Sequence[str]) -> float:
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < _SECONDS:
        for text in texts:
            judge(text)
        done += len(texts)
    return done / spent
