"""Short ways to make definitions and evaluate one field."""

from __future__ import annotations

from typing import Any

from tenure_records.computed import Definition, Evaluator, define


def field(op: str, *paths: str, result_type: str = "number", key: str = "f", **members: Any) -> Definition:
    operation = {"op": op, "paths": list(paths)}
    return define(key=key, label=key, operation=operation, result_type=result_type, **members)


def outcome(text: str, definition: Definition) -> tuple[Any, str | None]:
    """The value and the code of one field."""
    evaluation = Evaluator([definition]).evaluate(text)
    assert set(evaluation.values) == {definition.key}
    return evaluation.values[definition.key], evaluation.errors.get(definition.key)
