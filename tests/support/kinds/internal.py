"""A kind only domain code may create."""

from tenure.model.kinds import KindSpec, kind

INTERNAL = KindSpec("tests.internal", internal="domain.rebuild()")


@kind(INTERNAL)
def internal(attempt: object, params: object) -> None:
    """Does nothing."""
