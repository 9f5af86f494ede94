"""Items of an attempt: fenced, committed with the checkpoint, bounded, and added up where they are written."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tenure.model.errors import UsageError
from tenure.model.items import DOCUMENT_BYTES, Item, Outcome
from tenure.model.kinds import kind
from tenure.model.retry import Reject
from tenure.runtime.attempt import Attempt
from tests.support.slot import Bench, Step

Make = Callable[..., Bench]
Body = Callable[[Attempt, Any], None]


def run(make_bench: Make, body: Body) -> tuple[Bench, str]:
    made = kind("itemising")(body)
    bench = make_bench(made, run_on_tasks=1)
    task = bench.submit(made)
    bench.run(task)
    return bench, bench.state(task)


def page(attempt: Attempt, *items: Item) -> None:
    with attempt.transaction() as tx:
        attempt.items(tx, items)
        attempt.checkpoint(tx, Step(done=1), processed=len(items))


def test_an_item_keeps_what_was_known_of_the_object(make_bench: Make) -> None:
    tree = [Outcome("disconnected", "cso", "7", "Ada", [Outcome("deleted", "mvo", "9"), Outcome("deleted")])]
    item = Item("deleted", "cso", "7", "Ada", snapshot={"mail": "ada@example.org"}, outcomes=tree)
    bench, _ = run(make_bench, lambda attempt, _: page(attempt, item))
    row = bench.first(
        "select change, object_type, object_id, object_name, error_code, snapshot, outcomes from activity_items"
    )
    assert tuple(row[:6]) == ("deleted", "cso", "7", "Ada", None, {"mail": "ada@example.org"})
    assert row[6] == [
        {"outcome": "disconnected", "object_type": "cso", "object_id": "7", "object_name": "Ada",
         "outcomes": [{"outcome": "deleted", "object_type": "mvo", "object_id": "9"}, {"outcome": "deleted"}]}
    ]  # fmt: skip
    counted = bench.rows("select change, nested, objects from activity_statistics order by nested, change")
    assert [tuple(one) for one in counted] == [("deleted", False, 1), ("deleted", True, 2), ("disconnected", True, 1)]


def test_an_exception_becomes_an_item_without_its_text_unless_it_was_meant_to_be_read(make_bench: Make) -> None:
    items = [
        Item.failed("updated", ValueError("a secret"), object_id="1"),
        Item.failed("updated", Reject("no such zone")),
    ]
    bench, _ = run(make_bench, lambda attempt, _: page(attempt, *items))
    rows = bench.rows("select error_code, error_message, unhandled from activity_items order by created_at, id")
    assert [tuple(one) for one in rows] == [
        ("ValueError", "unexpected ValueError; the worker's log has the stack", True),
        ("Reject", "no such zone", False),
    ]


def test_a_copy_of_a_name_is_exact(make_bench: Make) -> None:
    names = ["two  spaces", r"back\slash \N \t", '"quoted"', "\u00e5\u1f600", " ", "\\."]
    bench, _ = run(make_bench, lambda attempt, _: page(attempt, *(Item("updated", object_name=name) for name in names)))
    rows = bench.rows("select object_name from activity_items order by created_at, id")
    assert [row[0] for row in rows] == names


def test_what_postgresql_cannot_hold_or_is_too_long_is_bounded(make_bench: Make) -> None:
    big = {"text": "x" * DOCUMENT_BYTES}
    item = Item("updated", "a\0b", "\ud800", "n" * 999, error="E", message="m\n" * 999, snapshot=big)
    bench, _ = run(make_bench, lambda attempt, _: page(attempt, item))
    row = bench.first(
        "select object_type, object_id, length(object_name), length(error_message), snapshot from activity_items"
    )
    assert tuple(row) == ("a\ufffdb", "\ufffd", 255, 500, {"omitted_bytes": DOCUMENT_BYTES + len('{"text":""}')})


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (Item(""), "item 1: change '': 1 to 64 bytes"),
        (Item("x" * 65), "item 1: change"),
        (Item("updated", message="odd"), "item 1: a message or an unhandled error needs the type of the error"),
        (
            Item("updated", snapshot={"a": [{"b": Decimal("1E+200000")}]}),
            "item 1: its snapshot holds a number with an exponent",
        ),
        (Item("updated", snapshot={"a": Decimal("1E-20000")}), "item 1: its snapshot holds a number with an exponent"),
        (Item("updated", snapshot={"a": object()}), "item 1: its snapshot holds something that JSON cannot carry"),
        (Item("updated", snapshot={"a": "\0"}), "item 1: its snapshot holds a NUL character"),
        (Item("updated", outcomes=[Outcome("")]), "item 1: outcome ''"),
    ],
)
def test_a_wrong_item_is_named_and_nothing_is_written(make_bench: Make, item: Item, said: str) -> None:
    raised: list[str] = []

    def body(attempt: Attempt, params: object) -> None:
        try:
            page(attempt, Item("updated"), item)
        except UsageError as error:
            raised.append(str(error))

    bench, state = run(make_bench, body)
    assert raised[0].startswith(said)
    assert (state, bench.one("select count(*) from activity_items")) == ("succeeded", 0)


def test_items_without_a_checkpoint_are_not_committed(make_bench: Make) -> None:
    def body(attempt: Attempt, params: object) -> None:
        with attempt.transaction() as tx:
            attempt.items(tx, [Item("updated")])

    bench, state = run(make_bench, body)
    assert state == "failed error"
    assert "items are committed with the checkpoint of their page" in bench.one("select message from activities")
    assert bench.one("select count(*) from activity_items") == 0


def test_a_rolled_back_page_asks_nothing_of_the_next(make_bench: Make) -> None:
    def body(attempt: Attempt, params: object) -> None:
        with attempt.connection() as connection:
            attempt.items(connection, [Item("updated")])
            connection.rollback()
            connection.exec_driver_sql("select 1")
            connection.commit()
        page(attempt, Item("added"))

    bench, state = run(make_bench, body)
    assert (state, bench.one("select string_agg(change, ' ') from activity_items")) == ("succeeded", "added")


def test_items_on_a_connection_that_no_lease_fences_are_refused(make_bench: Make) -> None:
    def body(attempt: Attempt, params: object) -> None:
        with engines[0].begin() as connection:
            attempt.items(connection, [Item("updated")])

    engines: list[Any] = []
    made = kind("itemising")(body)
    bench = make_bench(made)
    engines.append(bench.engine)
    task = bench.submit(made)
    bench.run(task)
    assert bench.state(task) == "failed error"
    assert "which its lease fences" in bench.one("select message from activities")


def test_a_superseded_holder_leaves_no_items(make_bench: Make) -> None:
    def body(attempt: Attempt, params: object) -> None:
        with attempt.transaction() as tx:
            attempt.items(tx, [Item("updated")])
            attempt.checkpoint(tx, Step(done=1))
            bench_of[0].steal(attempt.task_id)

    bench_of: list[Bench] = []
    made = kind("itemising")(body)
    bench_of.append(make_bench(made))
    task = bench_of[0].submit(made)
    bench_of[0].run(task)
    assert (
        bench_of[0].one("select (select count(*) from activity_items) + (select count(*) from activity_statistics)")
        == 0
    )


def test_items_are_selected_in_bulk_and_add_up_the_same(make_bench: Make) -> None:
    select = """select case when n % 2 = 0 then 'added' else 'updated' end, n::text, 'city ' || n,
        case when n % 10 = 0 then 'Broken' end, case when n % 10 = 0 then repeat('x', :length) end, n % 20 = 0,
        jsonb_build_object('n', n), '[{"outcome": "moved", "outcomes": [{"outcome": "noted"}]}]'::jsonb
        from generate_series(1, 100) n"""
    columns = ("change", "object_id", "object_name", "error_code", "error_message", "unhandled", "snapshot", "outcomes")

    def body(attempt: Attempt, params: object) -> None:
        with attempt.transaction() as tx:
            assert attempt.items_from(tx, columns, select, {"length": 900}) == 100
            attempt.checkpoint(tx, Step(done=1), processed=100)

    bench, state = run(make_bench, body)
    assert state == "partially_succeeded"
    counted = bench.rows(
        "select change, nested, objects, errors, unhandled from activity_statistics order by nested, change"
    )
    assert [tuple(one) for one in counted] == [
        ("added", False, 50, 10, 5), ("updated", False, 50, 0, 0), ("moved", True, 100, 0, 0), ("noted", True, 100, 0, 0),
    ]  # fmt: skip
    assert bench.one("select max(length(error_message)) from activity_items") == 500


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("object_id",), "items need the column `change`"),
        (("change", "change"), "each column once"),
        (("change", "id"), "items have no column 'id'"),
    ],
)
def test_a_wrong_selection_is_refused(make_bench: Make, columns: tuple[str, ...], said: str) -> None:
    raised: list[str] = []

    def body(attempt: Attempt, params: object) -> None:
        with attempt.transaction() as tx:
            try:
                attempt.items_from(tx, columns, "select 1")
            except UsageError as error:
                raised.append(str(error))
            attempt.checkpoint(tx, Step(done=1))

    run(make_bench, body)
    assert said in raised[0]


def test_a_warning_said_again_by_a_resumed_attempt_stands_once(make_bench: Make) -> None:
    def body(attempt: Attempt, params: object) -> None:
        for said in ("the delta\nfell back", "the delta fell back", "and was slow"):
            attempt.warn(said)

    bench, state = run(make_bench, body)
    row = bench.first("select status, warning_message from activities")
    assert (state, *row) == ("succeeded", "complete_with_warning", "the delta fell back\nand was slow")
