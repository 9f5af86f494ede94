"""Tenure: a durable task platform for people who already run Celery. PostgreSQL is the truth, Celery the engine."""

__version__ = "0.1.0"
