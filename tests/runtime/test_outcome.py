"""What every way to leave a body means for its task; nothing here needs a database."""

from typing import Any
from uuid import UUID

import psycopg2
import pytest
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import DBAPIError

from tenure.model import faults
from tenure.model.errors import InvalidParams, InvalidResult, NoSuchTask
from tenure.model.kinds import KindSpec
from tenure.model.records import Claimed, Ended, Holder, Lease
from tenure.model.retry import Reject, Retry, RetryPolicy
from tenure.model.stops import Cancelled, DeadlineExceeded, LeaseLost, ShuttingDown
from tenure.runtime import outcome

STEADY = RetryPolicy(initial=5.0, factor=2.0, jitter=False)
SECRET = "sekrit-4711"


def claimed(attempt: int = 1, *, crashes: int = 0, max_attempts: int = 1) -> Claimed:
    lease = Lease(UUID(int=1), 7, Holder(UUID(int=2), 3))
    return Claimed(lease, "k", attempt, crashes, max_attempts, UUID(int=1), None, None, 0, None)


def of(error: BaseException, *, attempt: int = 1, crashes: int = 0, **options: Any) -> Ended:
    spec = KindSpec("k", retry=options.pop("retry", STEADY), **options)
    return outcome.of_exception(error, spec, claimed(attempt, crashes=crashes, max_attempts=spec.max_attempts))


@pytest.mark.parametrize("on_shutdown", ["fail", "release", "finish"])
def test_cancel_deadline_and_lost_lease_do_not_ask_what_the_kind_does_on_shutdown(on_shutdown: str) -> None:
    assert of(Cancelled(), on_shutdown=on_shutdown) is outcome.CANCELLED
    assert of(LeaseLost(), on_shutdown=on_shutdown) is outcome.LOST
    late = of(DeadlineExceeded(), on_shutdown=on_shutdown)
    assert (late.verb, late.state, late.outcome) == ("fail", "failed", "deadline_exceeded")


BY_SIGTERM = SystemExit(-241)  # what Celery's child raises: the signal's number less 256


@pytest.mark.parametrize("error", [ShuttingDown(), BY_SIGTERM])
def test_a_shutdown_fails_releases_or_has_been_waited_for_as_the_kind_says(error: BaseException) -> None:
    for on_shutdown in ("fail", "finish"):
        how = of(error, on_shutdown=on_shutdown, max_attempts=5)
        assert (how.state, how.outcome) == ("failed", "service_unavailable")
    assert of(error, on_shutdown="release") is outcome.RELEASE


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("bye"), SystemExit(3), KeyboardInterrupt()])
def test_a_body_that_leaves_by_itself_has_failed_and_is_never_handed_on(error: BaseException) -> None:
    for on_shutdown in ("fail", "release", "finish"):
        how = of(error, on_shutdown=on_shutdown)
        assert (how.state, how.outcome, how.error_code) == ("failed", "error", type(error).__name__)


@pytest.mark.parametrize("after", [float("inf"), float("nan"), 1e300])
def test_a_retry_never_waits_longer_than_a_timestamp_can_say(after: float) -> None:
    how = of(Retry("later", after=after), max_attempts=3)
    assert 0 <= (how.available_after or 0) <= outcome.LONGEST_DELAY


def test_what_an_exception_cannot_say_costs_only_its_text() -> None:
    class Mute(Retry):
        def __str__(self) -> str:
            raise ValueError("no words")

    assert of(Mute(), max_attempts=1).error_message == "Mute"


def test_a_result_is_read_as_strictly_as_the_database_reads_it() -> None:
    class Constants(BaseModel):
        model_config = ConfigDict(ser_json_inf_nan="constants")
        x: float = float("inf")

    class Digits(BaseModel):
        x: int = 10**20_000

    class Deep(BaseModel):
        def model_dump_json(self, **_: Any) -> str:
            return "[" * 20_000 + "]" * 20_000

    for value in (Constants(), Digits(), Deep()):
        with pytest.raises(InvalidResult):
            outcome.encode_result(value, 1_000_000)


def test_a_retry_is_scheduled_after_the_time_it_names() -> None:
    how = of(Retry("the depot is closed", after=12.5), max_attempts=3)
    assert (how.verb, how.state, how.outcome, how.available_after) == ("retry_later", "scheduled", None, 12.5)
    assert (how.error_code, how.error_message) == ("retry", "the depot is closed")


def test_a_retry_without_a_time_takes_the_kinds_backoff_and_never_a_negative_one() -> None:
    assert [of(Retry(), attempt=n, max_attempts=9).available_after for n in (1, 2, 3)] == [5.0, 10.0, 20.0]
    assert of(Retry(after=-3), max_attempts=3).available_after == 0.0


def test_attempts_that_a_lost_worker_cost_do_not_count_as_failures() -> None:
    assert of(Retry(), attempt=4, crashes=2, max_attempts=3).verb == "retry_later"
    assert of(Retry(), attempt=5, crashes=2, max_attempts=3).verb == "fail"


def test_a_retry_with_no_attempt_left_fails_and_says_that_they_are_exhausted() -> None:
    how = of(Retry("the depot is closed"), attempt=3, max_attempts=3)
    assert (how.state, how.outcome, how.error_message) == ("failed", "attempts_exhausted", "the depot is closed")
    assert of(Retry(), max_attempts=1).outcome == "error", "a kind with a single attempt has exhausted nothing"


def test_an_exception_without_a_retry_policy_fails_as_an_error() -> None:
    how = of(ValueError(SECRET), max_attempts=1)
    assert (how.verb, how.state, how.outcome, how.error_code) == ("fail", "failed", "error", "ValueError")


def test_an_exception_is_retried_when_the_policy_names_its_class() -> None:
    policy = RetryPolicy(on=(ConnectionError,), jitter=False)
    how = of(ConnectionResetError(SECRET), max_attempts=2, retry=policy)
    assert (how.verb, how.error_code, how.available_after) == ("retry_later", "ConnectionResetError", 5.0)
    assert of(ValueError(SECRET), max_attempts=2, retry=policy).outcome == "error"
    assert of(ConnectionResetError(), attempt=2, max_attempts=2, retry=policy).outcome == "attempts_exhausted"


def test_a_rejected_request_keeps_the_authors_reason() -> None:
    how = of(Reject("no class\nof that name"), max_attempts=5)
    assert (how.verb, how.state, how.outcome) == ("reject", "failed", "rejected")
    assert how.error_message == "no class of that name"
    assert of(InvalidParams("k: name: Field required")).outcome == "rejected"


def test_a_result_that_cannot_be_stored_is_not_worth_another_attempt() -> None:
    how = of(InvalidResult("the result holds a NUL character"), max_attempts=5)
    assert (how.outcome, how.error_code) == ("error", "invalid_result")
    assert how.error_message == "the result holds a NUL character"


def test_our_own_errors_keep_their_line_and_foreign_ones_lose_their_text() -> None:
    assert of(NoSuchTask("no task 7")).error_message == "no task 7"
    for error in (ValueError(SECRET), psycopg2.OperationalError(SECRET), ExceptionGroup(SECRET, [OSError(SECRET)])):
        try:
            raise error
        except Exception as raised:
            how = of(raised)
        assert SECRET not in str(how)
        assert type(error).__name__ in str(how.error_message)
        assert "test_outcome.py:" in str(how.error_message), "where it was raised is not secret"


@pytest.mark.parametrize("text", ["nul \0 here", "lone \ud800 here", "x" * 10_000, "line\r\nbreaks\t"])
def test_whatever_an_author_says_can_be_stored(text: str) -> None:
    for how in (of(Reject(text)), of(Retry(text), max_attempts=2), of(Retry(text))):
        message = str(how.error_message)
        assert len(message) <= faults.MESSAGE
        assert message.isprintable()
        message.encode()


class Result(BaseModel):
    name: str
    share: float = 0.5


@pytest.mark.parametrize(
    "value, text",
    [
        (None, None),
        ({"a": [1, 2.5, None, True, "ø"]}, '{"a":[1,2.5,null,true,"ø"]}'),
        (Result(name="x"), '{"name":"x","share":0.5}'),
        ("a backslash before u0000: \\u0000", '"a backslash before u0000: \\\\u0000"'),
        (0, "0"),
    ],
)
def test_a_result_is_stored_as_json(value: object, text: str | None) -> None:
    assert outcome.encode_result(value, 1000) == text


def nested() -> list[object]:
    loop: list[object] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "value, said",
    [
        ("x" * 1000, "1002 bytes, the limit is 1000"),
        ("ø" * 500, "1002 bytes"),
        (Result(name="x" * 1000), "the limit is 1000"),
        (object(), "no JSON value"),
        ({"a": {1, 2}}, "no JSON value"),
        (b"bytes", "no JSON value"),
        ({(1, 2): 3}, "no JSON value"),
        (nested(), "no JSON value"),
        (float("nan"), "no JSON value"),
        ([float("inf")], "no JSON value"),
        ("a\0b", "NUL"),
        ({"a\0b": 1}, "NUL"),
        (Result(name="\\\0"), "NUL"),
        ("\ud800", "no JSON value"),
        (Result(name="x").model_copy(update={"name": "\ud800"}), "no JSON value"),
        (10**5000, "no JSON value"),
    ],
    ids=range(16),
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_result_that_jsonb_cannot_hold_is_refused_by_name(value: object, said: str) -> None:
    with pytest.raises(InvalidResult, match=said) as refused:
        outcome.encode_result(value, 1000)
    assert refused.value.__cause__ is None


def hide(error: Exception) -> None:
    try:
        raise error
    except Exception:
        raise KeyError() from None


def test_an_error_of_the_database_is_found_behind_others() -> None:
    assert outcome.of_database(psycopg2.InterfaceError())
    assert outcome.of_database(DBAPIError("select 1", {}, psycopg2.OperationalError()))
    with pytest.raises(KeyError) as hidden:
        hide(psycopg2.OperationalError())
    assert outcome.of_database(hidden.value)
    looped = ValueError()
    looped.__context__ = TypeError()
    looped.__context__.__context__ = looped
    assert not outcome.of_database(looped)


def test_a_stack_fit_for_a_log_names_places_and_no_values() -> None:
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        frames = faults.stack(error)
    assert SECRET not in str(frames)
    assert frames[0].startswith("test_outcome.py:")
