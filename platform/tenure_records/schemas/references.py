"""Where the references of a schema lead, all of them inside it: nothing is ever fetched.

A schema is a tree of JSON; the places that are schemas themselves are reached by the keywords below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from tenure.model.errors import shortened
from tenure_records.errors import SchemaRefused

from .drafts import Draft
from .pointers import pointer

Path: TypeAlias = tuple[str | int, ...]

LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAPS: Final = frozenset({"$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies"})
SINGLE: Final = frozenset(
    {
        "not", "if", "then", "else", "items", "additionalItems", "contains", "unevaluatedItems", "additionalProperties",
        "unevaluatedProperties", "propertyNames", "contentSchema",
    }
)  # fmt: skip


@dataclass(eq=False, slots=True)
class Place:
    """One subschema: where it stands, what it says, and the URI that references in it start from."""

    path: Path
    schema: Any
    base: str


@dataclass(eq=False)
class References:
    """The subschemas of one schema by path and by URI."""

    draft: Draft
    places: dict[Path, Place] = field(default_factory=dict)
    resources: dict[str, Place] = field(default_factory=dict)
    anchors: dict[tuple[str, str], Place] = field(default_factory=dict)
    dynamic: dict[str, list[Place]] = field(default_factory=dict)

    def add(self, path: Path, schema: Any, base: str) -> Place:
        """Register a subschema and everything below it."""
        first = Place(path, schema, base)
        waiting = [first]
        while waiting:
            place = waiting.pop()
            if place.path in self.places:
                continue
            self.places[place.path] = place
            if isinstance(place.schema, dict):
                self._name(place)
                waiting.extend(Place(place.path + step, below, place.base) for step, below in children(place.schema))
        return self.places[path]

    def _name(self, place: Place) -> None:
        schema, old = place.schema, self.draft is Draft.DRAFT_07
        given = schema.get("$id")
        if isinstance(given, str) and not (old and "$ref" in schema):
            uri, fragment = urldefrag(given)
            if uri or not fragment:
                place.base = join(place.base, uri)
                self.resources.setdefault(place.base, place)
            if old and fragment:
                self.anchors[place.base, fragment] = place
        if not old:
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := schema.get(keyword), str):
                    self.anchors[place.base, name] = place
            if isinstance(name := schema.get("$dynamicAnchor"), str):
                self.dynamic.setdefault(name, []).append(place)

    def targets(self, place: Place, keyword: str) -> list[Place]:
        """What `$ref` or `$dynamicRef` of a place may stand for. Raises SchemaRefused."""
        target = self._target(place, keyword)
        if keyword == "$dynamicRef" and isinstance(target.schema, dict):
            name = target.schema.get("$dynamicAnchor")
            if name is not None and urldefrag(place.schema[keyword]).fragment == name:
                return self.dynamic[name]
        return [target]

    def _target(self, place: Place, keyword: str) -> Place:
        reference = place.schema[keyword]
        uri, fragment = urldefrag(join(place.base, reference))
        found = self.resources.get(uri)
        if found is not None and fragment:
            fragment = unquote(fragment)
            found = self._below(found, fragment) if fragment[0] == "/" else self.anchors.get((uri, fragment))
        if found is None:
            where = pointer((*place.path, keyword))
            raise SchemaRefused(
                f"the schema is refused at {where}: {shortened(reference)!r} is not in this schema, and nothing is fetched"
            )
        return found

    def _below(self, place: Place, fragment: str) -> Place | None:
        here, path, base = place.schema, place.path, place.base
        for token in fragment[1:].split("/"):
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(here, dict) and token in here:
                here, path = here[token], (*path, token)
            elif isinstance(here, list) and token.isdecimal() and int(token) < len(here):
                here, path = here[int(token)], (*path, int(token))
            else:
                return None
            base = self.places[path].base if path in self.places else base
        return self.add(path, here, base) if isinstance(here, dict | bool) else None


def references(schema: Any, draft: Draft) -> References:
    """Everything that a schema's references can mean."""
    found = References(draft)
    root = found.add((), schema, "")
    found.resources.setdefault("", root)
    return found


def children(schema: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    """(step, subschema) for every place directly below that is a schema by its keyword."""
    for keyword, value in schema.items():
        if keyword in LISTS or (keyword == "items" and isinstance(value, list)):
            yield from (((keyword, n), below) for n, below in enumerate(value) if isinstance(below, dict | bool))
        elif keyword in MAPS and isinstance(value, dict):
            yield from (((keyword, name), below) for name, below in value.items() if isinstance(below, dict | bool))
        elif keyword in SINGLE and isinstance(value, dict | bool):
            yield (keyword,), value


def join(base: str, reference: str) -> str:
    """The absolute URI of a reference. Of URIs that are no paths only the fragment can change."""
    if reference.startswith("#") or not reference:
        return urldefrag(base).url + reference
    if urlsplit(reference).scheme or not base:
        return reference
    scheme, _, rest = base.partition(":")
    if not rest.startswith("/"):
        return reference
    # urljoin knows the paths of some schemes only; the rule is the same for all.
    return scheme + urljoin("http:" + rest, reference).removeprefix("http")
