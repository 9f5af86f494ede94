"""`python -m tenure_workers …`: Celery's command line, with a worker's exit codes from its first moment on."""

from tenure_workers.early import leave_on_signals

leave_on_signals()

from celery.__main__ import main  # noqa: E402 - a second of imports, in which a signal may come

if __name__ == "__main__":
    main()
