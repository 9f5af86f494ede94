"""Flower's configuration file: every name here that is an option of Flower's sets it. Command-line options win.

Flower shows Celery's events, which are pictures; PostgreSQL has the truth. It must show nothing a task was given.
"""

import os

from tenure_workers.flower import redaction

# Whoever reaches Flower sees all tasks: the network is somebody's decision, not the default.
address = os.environ.get("FLOWER_ADDRESS", "127.0.0.1")
port = int(os.environ.get("FLOWER_PORT", "5555"))
# Its buttons would revoke, time out and apply behind PostgreSQL's back: `tenure tasks` does that.
read_only = True
# ~2 KB each, in memory; the history is in PostgreSQL.
max_tasks = int(os.environ.get("FLOWER_MAX_TASKS", "10000"))
max_workers = 500
purge_offline_workers = 3600  # s; each restart of a worker may be a new name
inspect_timeout = 1000.0  # ms
tasks_columns = "name,uuid,state,received,started,runtime,worker,exception"
format_task = redaction.format_task

redaction.install()
