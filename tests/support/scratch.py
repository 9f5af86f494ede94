"""Where the data of test servers lies: in memory when there is plenty, else in the usual temporary directory."""

import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_PLENTY = 4 << 30


def scratch_directory() -> Path:
    """A new, private directory (0700). Whoever asks for it removes it."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _PLENTY
    return Path(tempfile.mkdtemp(prefix="tenure-test-", dir=_MEMORY if roomy else None))
