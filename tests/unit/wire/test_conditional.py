from __future__ import annotations

from dataclasses import dataclass
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from request_heads import head

from gateway.errors import ClientError, S3Code
from gateway.wire.conditional import (
    NO_CONDITIONS,
    Conditions,
    Outcome,
    check_delete,
    check_write,
    evaluate,
    parse_conditions,
    parse_delete_conditions,
    parse_http_date,
    unquote_etag,
)

NOW_S = 784_111_777  # RFC 9110's own example
ETAG = "abc"


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ],
)
def test_parse_http_date__three_forms__are_read(text: str) -> None:
    assert parse_http_date(text) == NOW_S


@given(st.integers(0, 4_102_444_800))
def test_parse_http_date__what_the_standard_library_writes__is_read_back(time_s: int) -> None:
    assert parse_http_date(formatdate(time_s, usegmt=True)) == time_s


@pytest.mark.parametrize(
    ("text", "year_day_s"),
    [
        ("Thursday, 01-Jan-70 00:00:00 GMT", 0),
        ("Friday, 01-Jan-38 00:00:00 GMT", 2_145_916_800),
    ],
)
def test_parse_http_date__two_digit_year__is_of_our_time(text: str, year_day_s: int) -> None:
    assert parse_http_date(text) == year_day_s


def test_parse_http_date__leap_second__counts_as_the_one_before() -> None:
    assert parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT") == 1_483_228_799


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "1994-11-06T08:49:37Z",
    ],
)
def test_parse_http_date__no_date__is_none(text: str) -> None:
    assert parse_http_date(text) is None


@pytest.mark.parametrize(
    ("value", "etags"),
    [
        ('"abc"', ("abc",)),
        ("abc", ("abc",)),
        ('W/"abc"', ("abc",)),
        ('"a", W/"b" ,c', ("a", "b", "c")),
        ('"a,b"', ("a,b",)),
        ("*", ("*",)),
        ("", ()),
    ],
)
def test_parse_conditions__etags__are_unquoted(value: str, etags: tuple[str, ...]) -> None:
    assert parse_conditions(head(if_match=value)).if_match == etags


def test_parse_conditions__no_header__is_no_condition() -> None:
    assert parse_conditions(head(host="h")) == NO_CONDITIONS


def test_parse_conditions__prefix__reads_the_copy_sources() -> None:
    request = head(
        if_match="x",
        x_amz_copy_source_if_none_match='"y"',
        x_amz_copy_source_if_modified_since="Sun, 06 Nov 1994 08:49:37 GMT",
        x_amz_copy_source_if_unmodified_since="never",
    )

    assert parse_conditions(request, "x-amz-copy-source-") == Conditions(
        if_none_match=("y",), if_modified_since=NOW_S
    )


P, N, F = Outcome.PROCEED, Outcome.NOT_MODIFIED, Outcome.PRECONDITION_FAILED
HIT, MISS = (ETAG,), ("other",)


@pytest.mark.parametrize(
    ("conditions", "outcome"),
    [
        (NO_CONDITIONS, P),
        (Conditions(if_match=HIT), P),
        (Conditions(if_match=("*",)), P),
        (Conditions(if_match=MISS), F),
        (Conditions(if_match=()), F),
        (Conditions(if_none_match=HIT), N),
        (Conditions(if_none_match=("*",)), N),
        (Conditions(if_none_match=MISS), P),
        (Conditions(if_unmodified_since=NOW_S), P),
        (Conditions(if_unmodified_since=NOW_S - 1), F),
        (Conditions(if_modified_since=NOW_S), N),
        (Conditions(if_modified_since=NOW_S - 1), P),
        # S3: a true If-Match wins over a false If-Unmodified-Since
        (Conditions(if_match=HIT, if_unmodified_since=NOW_S - 1), P),
        (Conditions(if_match=MISS, if_unmodified_since=NOW_S), F),
        # S3: a false If-None-Match is 304 whatever If-Modified-Since says, and a true one proceeds
        (Conditions(if_none_match=HIT, if_modified_since=NOW_S - 1), N),
        (Conditions(if_none_match=MISS, if_modified_since=NOW_S), P),
        # both pairs: RFC 9110 section 13.2.2 steps 1 to 4
        (Conditions(if_match=HIT, if_none_match=HIT), N),
        (Conditions(if_match=MISS, if_none_match=HIT), F),
        (Conditions(if_unmodified_since=NOW_S - 1, if_none_match=HIT), F),
    ],
)
def test_evaluate__conditions__are_judged_in_order(
    conditions: Conditions, outcome: Outcome
) -> None:
    assert evaluate(conditions, ETAG, NOW_S) is outcome


@dataclass(frozen=True)
class Object:
    """What conditions are held against."""

    etag: str = ETAG
    modified_ns: int = NOW_S * 1_000_000_000 + 999_999_999
    size_bytes: int = 7


THERE = Object()


@pytest.mark.parametrize(
    ("conditions", "current"),
    [
        (NO_CONDITIONS, None),
        (NO_CONDITIONS, THERE),
        (Conditions(if_none_match=("*",)), None),
        (Conditions(if_none_match=MISS), THERE),
        (Conditions(if_match=HIT), THERE),
        (Conditions(if_match=("*",)), THERE),
    ],
)
def test_check_write__conditions_hold__passes(
    conditions: Conditions, current: Object | None
) -> None:
    check_write(conditions, current)


@pytest.mark.parametrize(
    ("conditions", "current", "code"),
    [
        (Conditions(if_none_match=("*",)), THERE, S3Code.PRECONDITION_FAILED),
        (Conditions(if_match=MISS), THERE, S3Code.PRECONDITION_FAILED),
        (Conditions(if_match=("*",)), None, S3Code.NO_SUCH_KEY),
    ],
)
def test_check_write__condition_fails__is_refused(
    conditions: Conditions, current: Object | None, code: S3Code
) -> None:
    with pytest.raises(ClientError) as caught:
        check_write(conditions, current)
    assert caught.value.code is code


@pytest.mark.parametrize(
    "conditions",
    [
        NO_CONDITIONS,
        Conditions(if_match=HIT),
        Conditions(if_modified_at=NOW_S),
        Conditions(if_size_bytes=7),
        Conditions(if_match=HIT, if_modified_at=NOW_S, if_size_bytes=7),
    ],
)
def test_check_delete__conditions_hold__passes(conditions: Conditions) -> None:
    check_delete(conditions, THERE)


@pytest.mark.parametrize(
    ("conditions", "condition"),
    [
        (Conditions(if_match=MISS), "If-Match"),
        (Conditions(if_modified_at=NOW_S + 1), "x-amz-if-match-last-modified-time"),
        (Conditions(if_modified_at=NOW_S - 1), "x-amz-if-match-last-modified-time"),
        (Conditions(if_match=HIT, if_size_bytes=8), "x-amz-if-match-size"),
    ],
)
def test_check_delete__condition_fails__is_refused_unless_nothing_is_there(
    conditions: Conditions, condition: str
) -> None:
    with pytest.raises(ClientError) as caught:
        check_delete(conditions, THERE)
    assert caught.value.code is S3Code.PRECONDITION_FAILED
    assert caught.value.details == {"Condition": condition}
    check_delete(conditions, None)


def test_parse_delete_conditions__all_three__are_read() -> None:
    found = parse_delete_conditions(
        head(
            if_match='"abc"',
            x_amz_if_match_last_modified_time="Sun, 06 Nov 1994 08:49:37 GMT",
            x_amz_if_match_size="7",
        )
    )
    assert found == Conditions(if_match=("abc",), if_modified_at=NOW_S, if_size_bytes=7)
    assert parse_delete_conditions(head()) == NO_CONDITIONS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-amz-if-match-last-modified-time", "yesterday"),
        ("x-amz-if-match-size", "-1"),
        ("x-amz-if-match-size", "1e3"),
        ("x-amz-if-match-size", "9" * 20),
    ],
)
def test_parse_delete_conditions__not_understood__is_refused_not_ignored(
    name: str, value: str
) -> None:
    with pytest.raises(ClientError) as caught:
        parse_delete_conditions(head(**{name: value}))
    assert caught.value.code is S3Code.INVALID_ARGUMENT
    assert caught.value.details["ArgumentName"] == name


@pytest.mark.parametrize("text", ['"abc"', "abc", 'W/"abc"', ' "abc" '])
def test_unquote_etag__any_form__is_bare(text: str) -> None:
    assert unquote_etag(text) == "abc"
