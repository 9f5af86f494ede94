"""The official JSON-Schema-Test-Suite as cases: a schema, a document, and whether the document fits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).parents[1] / "data" / "json-schema-test-suite"
DRAFTS: Final = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}
REMOTE: Final = "refers to a schema elsewhere, which is never fetched"
NUL: Final = "holds NUL, which PostgreSQL cannot store"
METASCHEMA: Final = "is written in a draft of its own"

# (draft, file, group) → why our rules refuse the schema. Every other group must agree with the suite.
REFUSED: Final[dict[tuple[str, str, str], str]] = {
    ("draft2020-12", "defs", "validate definition against metaschema"): REMOTE,
    ("draft2020-12", "dynamicRef", "$ref and $dynamicAnchor are independent of order - $defs first"): REMOTE,
    ("draft2020-12", "dynamicRef", "$ref and $dynamicAnchor are independent of order - $ref first"): REMOTE,
    ("draft2020-12", "dynamicRef", "$ref to $dynamicRef finds detached $dynamicAnchor"): REMOTE,
    ("draft2020-12", "dynamicRef", "strict-tree schema, guards against misspelled properties"): REMOTE,
    ("draft2020-12", "dynamicRef", "tests for implementation dynamic anchor and reference link"): REMOTE,
    ("draft2020-12", "ref", "remote ref, containing refs itself"): REMOTE,
    ("draft2020-12", "vocabulary", "ignore unrecognized optional vocabulary"): METASCHEMA,
    ("draft2020-12", "vocabulary", "schema that uses custom metaschema with with no validation vocabulary"): METASCHEMA,
    **{(draft, file, "nul characters in strings"): NUL for draft in DRAFTS for file in ("const", "enum")},
    **{
        (draft, "refRemote", group): REMOTE
        for draft in DRAFTS
        for group in (
            "Location-independent identifier in remote ref",
            "base URI change",
            "base URI change - change folder",
            "base URI change - change folder in subschema",
            "fragment within remote ref",
            "ref within remote ref",
            "remote ref",
            "retrieved nested refs resolve relative to their URI not $id",
            "root ref in remote ref",
        )
    },
    **{
        ("draft2020-12", "refRemote", group): REMOTE
        for group in (
            "$ref to $ref finds detached $anchor",
            "anchor within remote ref",
            "remote HTTP ref with different $id",
            "remote HTTP ref with different URN $id",
            "remote HTTP ref with nested absolute ref",
            "remote ref with ref to defs",
        )
    },
    ("draft7", "definitions", "validate definition against metaschema"): REMOTE,
    ("draft7", "ref", "remote ref, containing refs itself"): REMOTE,
    ("draft7", "refRemote", "$ref to $ref finds location-independent $id"): REMOTE,
    ("draft7", "refRemote", "remote ref with ref to definitions"): REMOTE,
}


@dataclass(frozen=True)
class Case:
    """One test of the suite. `schema` and `document` are JSON text; `schema` names its draft."""

    draft: str
    file: str
    group: str
    test: str
    schema: str
    document: str
    valid: bool

    @property
    def name(self) -> str:
        return f"{self.draft} {self.file}: {self.group}: {self.test}"

    @property
    def refused(self) -> str | None:
        """Why the schema must be refused; None when the case must agree with the suite."""
        return REFUSED.get((self.draft, self.file, self.group))

    def as_object(self) -> tuple[str, str] | None:
        """(schema, document) of the same verdict, with the document as the member `value` of an object.

        None for a draft-07 schema that is a `$ref`: beside it nothing counts, so it cannot be given a name.
        """
        inner = json.loads(self.schema)
        if self.draft == "draft7" and "$ref" in inner:
            return None
        outer: dict[str, Any] = {"$schema": DRAFTS[self.draft], "type": "object", "required": ["value"]}
        if isinstance(inner, dict):
            # As a resource of its own, so that "#" inside it still means itself.
            inner.setdefault("$id", "urn:case:schema")
            holder = "definitions" if self.draft == "draft7" else "$defs"
            outer |= {"properties": {"value": {"$ref": inner["$id"]}}, holder: {"case": inner}}
        else:
            outer["properties"] = {"value": inner}
        return json.dumps(outer), json.dumps({"value": json.loads(self.document)})


def cases() -> Iterator[Case]:
    """All of both drafts, those of refused groups too."""
    for draft, uri in DRAFTS.items():
        for file in sorted((DATA / draft).glob("*.json")):
            for group in json.loads(file.read_text()):
                schema = group["schema"]
                if isinstance(schema, dict):
                    schema.setdefault("$schema", uri)
                elif draft == "draft7":
                    schema = {"$schema": uri, "allOf": [schema]}
                for test in group["tests"]:
                    yield Case(
                        draft,
                        file.stem,
                        group["description"],
                        test["description"],
                        json.dumps(schema),
                        json.dumps(test["data"]),
                        test["valid"],
                    )
