"""The front door for Celery users: the app, and the broker that the dispatcher publishes through."""
