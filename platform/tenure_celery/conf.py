"""Celery's configuration in our processes, each setting with its reason: PostgreSQL is the truth, these make a good engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kombu import Queue

# Every call to the broker is bounded: with a frozen broker Celery would otherwise hang for ever.
TRANSPORT = {
    "socket_timeout": 3,  # s; above the 1 s of BRPOP
    "socket_connect_timeout": 2,  # s
    "visibility_timeout": 10_800,  # s; redelivery is not how we recover, leases are
    "unacked_restore_throttle": 1,  # else a restart of the broker is noticed after 100 s
}


def settings_of(queues: Sequence[str], default_queue: str) -> dict[str, Any]:
    """Celery's configuration."""
    return {
        "task_acks_late": True,  # the lease, not the ack, owns the task; a message must outlive a dead child
        "task_reject_on_worker_lost": True,  # idem
        "worker_prefetch_multiplier": 1,  # nothing is reserved beyond what runs
        "task_ignore_result": True,  # the task row is the result
        "result_backend": None,
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_send_task_events": True,  # Flower
        "task_send_sent_event": False,  # the dispatcher is the only sender; its hints say nothing Flower needs
        "worker_cancel_long_running_tasks_on_connection_loss": False,  # the duplicate is refused by the claim
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,  # a worker outlives its broker
        "broker_transport_options": TRANSPORT,
        "worker_enable_remote_control": True,
        "worker_disable_rate_limits": True,  # a held message would hold a slot of the worker; limits are rows
        "worker_hijack_root_logger": False,  # our log lines are JSON
        "worker_redirect_stdouts": False,
        "task_default_queue": default_queue,
        "task_queues": [Queue(name) for name in queues],
        "task_create_missing_queues": True,
        "enable_utc": True,
    }
