"""The fixed limits of schemas and of judging. None is a setting, so every process gives the same verdict."""

from __future__ import annotations

from typing import Final

SCHEMA_BYTES: Final = 256 * 1024
SCHEMA_DEPTH: Final = 64
FINDINGS: Final = 10
POINTER_CHARACTERS: Final = 255
# Compiled schemas kept by a process.
COMPILED: Final = 64
PATTERN_BYTES: Final = 256 * 1024
