"""The fixed limits of computed fields. They are part of the semantics: none is a setting, so every node agrees."""

from __future__ import annotations

from typing import Final

SEMANTICS_VERSION: Final = 1

MAX_SHARED_DEFINITIONS: Final = 32
MAX_PERSONAL_DEFINITIONS: Final = 16
MAX_LABEL_BYTES: Final = 128
MAX_DESCRIPTION_BYTES: Final = 2_048
MAX_PATHS: Final = 16
MAX_POINTER_BYTES: Final = 512
MAX_POINTER_TOKENS: Final = 32

MAX_DIGITS: Final = 34
MAX_EXPONENT: Final = 308

MAX_INPUT_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 200
MAX_FIELD_NODES: Final = 10_000
MAX_SCOPE_WORK: Final = 50_000
MAX_FIELD_OUTPUT_BYTES: Final = 64 * 1024
MAX_SCOPE_OUTPUT_BYTES: Final = 256 * 1024
