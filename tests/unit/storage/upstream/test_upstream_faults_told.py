"""A service's errors as ours."""

from typing import Any

import pytest

from gateway.errors import BusyError, ClientError, InternalError, S3Code
from gateway.storage.upstream.faults import Answer, refused


def answer(code: str, status: int, **headers: str) -> Answer:
    response: dict[str, Any] = {
        "Error": {"Code": code, "Message": "words", "Key": "k", "RequestId": "r"},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
    }
    return Answer.of(response)


def test_error__known_code__our_row_with_their_words() -> None:
    error = answer("NoSuchKey", 404).error(own_key=True)
    assert isinstance(error, ClientError)
    assert (error.code, error.message, error.details) == (S3Code.NO_SUCH_KEY, "words", {"Key": "k"})


@pytest.mark.parametrize(("status", "shown"), [(418, 418), (409, 409), (599, 502)])
def test_error__unknown_code_or_status__passes_through(status: int, shown: int) -> None:
    code = answer("Strange", status).error(own_key=True).code
    assert (code.code, code.status) == ("Strange", shown)


def test_error__no_body__named_by_its_status() -> None:
    assert answer("404", 404).error(own_key=True).code.code == "NotFound"


def test_error__slow_down__busy_as_long_as_they_say() -> None:
    error = answer("SlowDown", 503, **{"retry-after": "7"}).error(own_key=True)
    assert isinstance(error, BusyError)
    assert error.headers == {"Retry-After": "7"}


def test_error__key_refused__the_operator_s_own_and_the_user_s_differ() -> None:
    theirs = answer("InvalidAccessKeyId", 403)
    assert isinstance(theirs.error(own_key=True), InternalError)
    assert theirs.error(own_key=False).code is S3Code.INVALID_ACCESS_KEY_ID


def test_error__of_a_marker__keeps_the_headers_that_tell_of_it() -> None:
    told = {"x-amz-delete-marker": "true", "x-amz-version-id": "v", "server": "s"}
    error = answer("NoSuchKey", 404, **told).error(own_key=True)
    assert error.headers == {"x-amz-delete-marker": "true", "x-amz-version-id": "v"}


@pytest.mark.parametrize(
    ("code", "status", "broken", "undone", "passing"),
    [
        ("InternalError", 500, True, False, True),
        ("SlowDown", 503, True, True, True),
        ("NotImplemented", 501, False, False, False),
        ("OperationAborted", 409, False, False, True),
        ("TooManyRequests", 429, False, True, False),
        ("NoSuchKey", 404, False, False, False),
    ],
)
def test_answer__whose_fault__decides_on_repetition(
    code: str, status: int, broken: bool, undone: bool, passing: bool
) -> None:
    found = answer(code, status)
    assert (found.broken, found.undone, found.passing) == (broken, undone, passing)


def test_refused__anything__not_implemented_and_says_what() -> None:
    error = refused("lock objects")
    assert error.code is S3Code.NOT_IMPLEMENTED
    assert "lock objects" in error.message
