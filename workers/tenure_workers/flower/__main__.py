"""`python -m tenure_workers.flower [--port=N] [--address=A] …`: Celery's Flower on our app with our configuration.

Flower takes a configuration only as a file, and its environment variables lose against that file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from celery.__main__ import main

CONFIG = Path(__file__).with_name("config.py")


def arguments(given: list[str]) -> list[str]:
    """The command line of Celery; what was given comes last and wins."""
    return ["celery", "-A", "tenure_workers", "flower", f"--conf={CONFIG}", *given]


if __name__ == "__main__":
    sys.argv = arguments(sys.argv[1:])
    main()
