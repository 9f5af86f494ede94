"""PostgreSQL and Valkey from wheels, for a first start and for tests. Production brings its own servers.

A home is a directory that keeps their data; `acquire` gives a lease on its servers, which run while one is held.
"""

from tenure.embedded.errors import EmbeddedStartFailed, EmbeddedUnavailable
from tenure.embedded.lease import EmbeddedLease, acquire, running
from tenure.embedded.servers import Servers

__all__ = ["EmbeddedLease", "EmbeddedStartFailed", "EmbeddedUnavailable", "Servers", "acquire", "running"]
