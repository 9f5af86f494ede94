"""A Celery id is any text; a row's id is a UUID. One mapping, so that whoever knows the one finds the other."""

from __future__ import annotations

from uuid import UUID, uuid5

NAMESPACE = UUID("6f2f9bb0-0c57-5d0e-9a5b-7e1174656e75")
LABEL = "celery_id"  # keeps the original of an id that is no UUID


def row_id(celery_id: str) -> UUID:
    """The id itself where it is a UUID, else the UUID that always stands for it."""
    try:
        return UUID(celery_id)
    except ValueError:
        return uuid5(NAMESPACE, celery_id.encode(errors="replace").decode())


def labelled(celery_id: str) -> dict[str, str]:
    """The label of an id that is no UUID; none for one that is."""
    try:
        UUID(celery_id)
    except ValueError:
        return {LABEL: celery_id}
    return {}
