"""What a schema can cost at worst, found before any document is judged: the library cannot be interrupted.

For one place of a document, how often can each keyword be evaluated there, over all ways that lead to it? Doubling
references and combinators multiply; recursion adds up over 200 levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tenure_records.errors import SchemaRefused

from .bounds import IN_PLACE_DEPTH
from .patterns import Patterns
from .pointers import pointer
from .references import MAPS, Path, Place, References
from .weights import Cost, factor, own

_LEVELS: Final = 200
# A schema that costs more would not let the shortest of documents through.
_MOST: Final = 1e7
_STEPS: Final = 30_000
_IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_IN_PLACE: Final = ("not", "if", "then", "else")
_IN_PLACE_MAPS: Final = ("dependentSchemas", "dependencies")


@dataclass(eq=False, slots=True)
class _Node:
    place: Place
    cost: Cost
    factor: float
    # Groups of subschemas, for the same place and for those below: of one group only the costliest counts, groups add up.
    inside: list[list[_Node]] = field(default_factory=list)
    members: list[list[_Node]] = field(default_factory=list)
    items: list[list[_Node]] = field(default_factory=list)


def cost(found: References) -> Cost:
    """The worst case of a whole schema. Raises SchemaRefused where nothing bounds it."""
    _resolve(found)
    patterns = Patterns()
    nodes = {id(place): _Node(place, own(place, patterns), factor(place)) for place in found.places.values()}
    for node in nodes.values():
        _connect(node, found, lambda place: nodes[id(place)])
    order = _ordered(nodes.values())
    top = nodes[id(found.places[()])]
    return Cost(*(_worst(order, top, part) for part in ("character", "number", "string", "unique")))


def _resolve(found: References) -> None:
    """Look at every reference once, which registers the places that no keyword leads to."""
    done = 0
    while done < len(found.places):
        fresh = list(found.places.values())[done:]
        done += len(fresh)
        for place in fresh:
            for keyword in _references(place):
                found.targets(place, keyword)


def _references(place: Place) -> list[str]:
    given = place.schema if isinstance(place.schema, dict) else {}
    return [keyword for keyword in ("$ref", "$dynamicRef") if isinstance(given.get(keyword), str)]


def _connect(node: _Node, found: References, of: Callable[[Place], _Node]) -> None:
    place = node.place
    if not isinstance(place.schema, dict):
        return

    def below(keyword: str) -> list[_Node]:
        if (value := place.schema.get(keyword)) is None:
            return []
        steps: list[Path] = [(keyword,)]
        if isinstance(value, list):
            steps = [(keyword, n) for n in range(len(value))]
        elif keyword in MAPS and isinstance(value, dict):
            steps = [(keyword, name) for name in value]
        return [of(found.places[place.path + step]) for step in steps if place.path + step in found.places]

    for keyword in _references(place):
        node.inside.append([of(target) for target in found.targets(place, keyword)])
    for keyword in (*_IN_PLACE_LISTS, *_IN_PLACE, *_IN_PLACE_MAPS):
        node.inside += [[each] for each in below(keyword)]
    one = [*below("properties"), *below("additionalProperties")]
    node.members = [one, *([each] for each in below("patternProperties"))]
    node.members += [below("unevaluatedProperties"), below("propertyNames")]
    node.items = [[*below("prefixItems"), *below("items"), *below("additionalItems")]]
    node.items += [below("contains"), below("unevaluatedItems")]


def _ordered(nodes: Iterable[_Node]) -> list[_Node]:
    """Every node after those that stand for the same place inside it. Raises SchemaRefused for a circle of them."""
    depth: dict[int, int] = {}
    order: list[_Node] = []
    for start in nodes:
        waiting: list[tuple[_Node, bool]] = [(start, False)]
        while waiting:
            node, left = waiting.pop()
            if left:
                depth[id(node)] = 1 + max((depth[id(inner)] for group in node.inside for inner in group), default=0)
                if depth[id(node)] > IN_PLACE_DEPTH:
                    raise _refused(node, f"more than {IN_PLACE_DEPTH} subschemas stand for one place of a document")
                order.append(node)
            elif id(node) not in depth:
                depth[id(node)] = 0
                waiting.append((node, True))
                waiting.extend((inner, False) for group in node.inside for inner in group)
            elif depth[id(node)] == 0:
                raise _refused(node, "it refers to itself without going deeper into the document")
    return order


def _worst(order: list[_Node], root: _Node, part: str) -> float:
    if not any(getattr(node.cost, part) for node in order):
        return 0.0
    here: dict[int, float] = {}
    for node in order:
        own = getattr(node.cost, part)
        here[id(node)] = own + node.factor * _groups(node.inside, here)
    deeper = dict.fromkeys(here, 0.0)
    active = [node for node in order if node.inside or any(node.members) or any(node.items)]
    for _ in range(min(_LEVELS, max(1, _STEPS // max(1, len(active))))):
        reached = {key: max(value, deeper[key]) for key, value in here.items()}
        moved = False
        for node in active:
            inner = _groups(node.inside, deeper)
            below = max(_groups(node.members, reached), _groups(node.items, reached))
            new = max(deeper[id(node)], node.factor * inner + below)
            moved = moved or new != deeper[id(node)]
            deeper[id(node)] = new
        if not moved or deeper[id(root)] > _MOST:
            break
    else:
        if moved and len(active) * _LEVELS > _STEPS:
            raise _refused(root, "too many subschemas refer to each other")
    worst = max(here[id(root)], deeper[id(root)])
    if worst > _MOST:
        raise _refused(root, "its combinators and references multiply beyond any bound; name each alternative once")
    return worst


def _groups(groups: list[list[_Node]], reached: dict[int, float]) -> float:
    return sum(max((reached[id(node)] for node in group), default=0.0) for group in groups)


def _refused(node: _Node, why: str) -> SchemaRefused:
    return SchemaRefused(f"the schema is refused at {pointer(node.place.path) or '/'}: {why}")
