"""What is measured beside Tenure: bare Celery, procrastinate, and the same statements without either."""
