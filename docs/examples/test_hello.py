"""Tests of the hello kind, with the fixtures that come with Tenure: `pytest docs/examples`."""

from hello_app import Base, Guest
from hello_kind import Hello, hello
from sqlalchemy.orm import Session


def test_every_guest_is_greeted_two_to_a_page(tenure_database, tenure_run):
    Base.metadata.create_all(tenure_database.engine)
    with Session(tenure_database.engine) as session, session.begin():
        session.add_all([Guest(name=name) for name in ("Ada", "Grace", "Edsger")])
    task = tenure_run(hello, Hello(greeting="Welcome"))
    assert task["state"] == "succeeded"
    assert task["result"] == {"greeted": 3}
    assert task["checkpoint"]["sequence"] == 2
    with Session(tenure_database.engine) as session:
        assert session.get(Guest, 1).greeting == "Welcome, Ada!"


def test_without_guests_nobody_is_greeted(tenure_database, tenure_run):
    Base.metadata.create_all(tenure_database.engine)
    assert tenure_run(hello)["result"] == {"greeted": 0}
