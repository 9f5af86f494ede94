"""An application that submits through Celery. It needs PostgreSQL, and a broker only for tasks that are no kinds."""

import sys

from hello_app import Base, Guest
from hello_kind import hello
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session

from tenure import settings
from tenure_celery.app import TenureCelery

app = TenureCelery("guest-list", kinds=[hello])


def invite(engine: Engine, names: list[str]) -> str:
    """Store the guests and submit the task that greets them: both, or neither. The id of the task."""
    with Session(engine) as session, session.begin():
        session.add_all([Guest(name=name) for name in names])
        return app.kinds["hello"].apply_async(kwargs={"greeting": "Welcome"}, session=session).id


def greeted(task_id: str) -> int:
    """Wait for the end of the task. TaskFailed when it failed, celery's TimeoutError when it has not ended in time."""
    return app.AsyncResult(task_id).get(timeout=30)["greeted"]


if __name__ == "__main__":
    engine = create_engine(settings.load().client_url)
    Base.metadata.create_all(engine)
    task_id = invite(engine, sys.argv[1:] or ["Ada", "Grace", "Edsger"])
    print(task_id, greeted(task_id))
