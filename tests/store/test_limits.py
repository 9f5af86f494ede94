"""Limits as they are kept: an operator's number goes before the kind's own, which comes back when that is removed."""

from typing import Any

from tenure.model.kinds import KindSpec
from tenure.store import limits
from tenure.store.hot import HotSession
from tests.store.test_rules import limit
from tests.support import tasks
from tests.support.databases import Database
from tests.support.tasks import PLAIN
from tests.support.threads import together

ROWS = "select jsonb_object_agg(what || ' ' || name, jsonb_build_array(at_most, declared)) from limits"


def declare(database: Database, *specs: KindSpec) -> None:
    with database.engine.begin() as connection:
        limits.declare(connection, specs)


def remove(database: Database, what: Any, name: str) -> bool:
    with database.engine.begin() as connection:
        return limits.remove(connection, what, name)


def test_what_is_declared_is_kept_changed_and_forgotten_with_its_declaration(database: Database) -> None:
    declare(database, KindSpec("a", limit=2, scope_limit=1), KindSpec("b", limit=5))
    assert tasks.value(database, ROWS) == {"kind a": [None, 2], "each scope a": [None, 1], "kind b": [None, 5]}
    declare(database, KindSpec("a", limit=3), KindSpec("c"))
    assert tasks.value(database, ROWS) == {"kind a": [None, 3], "kind b": [None, 5]}, "b is another worker's"
    declare(database, KindSpec("a"), KindSpec("b"))
    assert tasks.value(database, ROWS) is None


def test_an_operators_number_outlives_declarations_and_gives_way_to_them(database: Database) -> None:
    declare(database, KindSpec("a", limit=2))
    limit(database, "kind", "a", 7)
    declare(database, KindSpec("a", limit=4))
    assert tasks.value(database, ROWS) == {"kind a": [7, 4]}
    declare(database, KindSpec("a"))
    assert tasks.value(database, ROWS) == {"kind a": [7, None]}
    declare(database, KindSpec("a", limit=4))
    assert remove(database, "kind", "a")
    assert tasks.value(database, ROWS) == {"kind a": [None, 4]}
    assert not remove(database, "kind", "a")


def test_workers_that_start_together_declare_without_harm(database: Database) -> None:
    specs = [KindSpec(f"k{number}", limit=number + 1) for number in range(20)]
    together(*(lambda s=s: declare(database, *s) for s in (specs, specs[::-1], specs[5:], specs[:7])))  # type: ignore[misc]
    assert tasks.value(database, "select count(*) from limits") == 20


def test_a_list_says_how_many_run(database: Database, session: HotSession) -> None:
    limit(database, "kind", PLAIN.name, 2)
    limit(database, "global", "", 9)
    limit(database, "scope", "ldap", 1)
    limit(database, "each scope", PLAIN.name, 1)
    assert session.claim(tasks.submit(database))
    assert session.claim(tasks.submit(database, scope="ldap"))
    with database.engine.connect() as connection:
        running = {row["what"]: row["running"] for row in limits.listing(connection)}
    assert running == {"global": 2, "kind": 2, "scope": 1, "each scope": None}


def test_a_kinds_own_scope_and_exclusiveness_hold_unless_the_submission_says_otherwise(database: Database) -> None:
    spec = KindSpec("store.own", params=PLAIN.params, scope="ldap", exclusive=True)
    own, other = tasks.submit(database, spec), tasks.submit(database, spec, scope="mail", exclusive=False)
    rows = "select array[scope, exclusive::text] from tasks where id = :id"
    assert tasks.value(database, rows, id=own) == ["ldap", "true"]
    assert tasks.value(database, rows, id=other) == ["mail", "false"]
    assert tasks.value(database, "select scope from task_hints where task_id = :id", id=other) == "mail"
