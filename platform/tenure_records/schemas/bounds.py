"""The fixed limits of schemas and of judging. None is a setting, so every process gives the same verdict."""

from __future__ import annotations

from typing import Final

SCHEMA_BYTES: Final = 256 * 1024
SCHEMA_DEPTH: Final = 64
# Subschemas that stand, one through the other, for one place of a document: each takes stack at each of 200 levels.
IN_PLACE_DEPTH: Final = 64
# A number in a schema, written out.
NUMBER_DIGITS: Final = 1_000
# Compiled size of one pattern and of all patterns of a schema.
PATTERN_BYTES: Final = 1024 * 1024
PATTERNS_BYTES: Final = 4 * 1024 * 1024

FINDINGS: Final = 10
POINTER_CHARACTERS: Final = 255

# Compiled schemas that a process keeps.
COMPILED: Final = 32
# What one document may cost at worst to be judged in this process, and as much again to have its findings named.
HERE_SECONDS: Final = 0.55
# The processor time and memory that a document has in the process aside.
ASIDE_SECONDS: Final = 0.6
NAMING_SECONDS: Final = 0.3
ASIDE_MEMORY_BYTES: Final = 1024 * 1024 * 1024
