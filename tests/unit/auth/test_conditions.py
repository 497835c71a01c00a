"""auth.conditions: each operator, each way to negate it, and keys that are absent or many."""

from __future__ import annotations

import pytest

from gateway.auth.conditions import ConditionError, parse_condition

KEY = "aws:Referer"


def holds(operator: str, wanted: str | tuple[str, ...], *given: str) -> bool:
    values = (wanted,) if isinstance(wanted, str) else wanted
    facts = {KEY.lower(): given} if given else {}
    return parse_condition(operator, KEY, values).holds(facts)


@pytest.mark.parametrize(
    ("operator", "wanted", "yes", "no"),
    [
        ("StringEquals", "a", "a", "A"),
        ("StringNotEquals", "a", "b", "a"),
        ("StringEqualsIgnoreCase", "Straße", "STRASSE", "x"),
        ("StringNotEqualsIgnoreCase", "a", "b", "A"),
        ("StringLike", "a*c?", "abbcd", "abbc"),
        ("StringNotLike", "a*", "b", "ab"),
        ("NumericEquals", "10", "10.0", "11"),
        ("NumericNotEquals", "10", "11", "10"),
        ("NumericLessThan", "10", "9", "10"),
        ("NumericLessThanEquals", "10", "10", "11"),
        ("NumericGreaterThan", "10", "11", "10"),
        ("NumericGreaterThanEquals", "10", "10", "9"),
        ("DateEquals", "2026-01-01T00:00:00Z", "1767225600", "1767225601"),
        ("DateNotEquals", "2026-01-01", "1767225601", "1767225600"),
        ("DateLessThan", "2026-01-01", "2025-12-31T23:59:59Z", "2026-01-01T00:00:00Z"),
        ("DateLessThanEquals", "2026-01-01", "2026-01-01", "2026-01-02"),
        ("DateGreaterThan", "1767225600", "2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z"),
        ("DateGreaterThanEquals", "2026-01-01", "2026-01-01", "2025-12-31"),
        ("Bool", "TRUE", "true", "false"),
        ("IpAddress", "10.0.0.0/8", "10.1.2.3", "11.0.0.1"),
        ("IpAddress", "10.0.0.1", "::ffff:10.0.0.1", "::ffff:10.0.0.2"),
        ("IpAddress", "2001:db8::/32", "2001:db8::1", "10.0.0.1"),
        ("NotIpAddress", "10.0.0.0/8", "11.0.0.1", "10.1.2.3"),
        ("ArnEquals", "arn:aws:iam::1:user/*", "arn:aws:iam::1:user/a", "arn:aws:iam::2:user/a"),
        ("ArnLike", "arn:aws:iam::*:user/a", "arn:aws:iam::1:user/a", "arn:aws:iam::1:2:user/a"),
        ("ArnNotLike", "arn:aws:iam::1:*", "arn:aws:iam::2:x", "arn:aws:iam::1:x"),
        ("ArnNotEquals", "arn:aws:iam::1:*", "arn:aws:iam::2:x", "arn:aws:iam::1:x"),
    ],
)
def test_holds__operator__tells_the_two_apart(
    operator: str, wanted: str, yes: str, no: str
) -> None:
    assert holds(operator, wanted, yes)
    assert not holds(operator, wanted, no)


@pytest.mark.parametrize(
    ("operator", "wanted", "absent"),
    [
        ("StringEquals", "a", False),
        ("StringNotEquals", "a", True),
        ("NotIpAddress", "10.0.0.0/8", True),
        ("NumericLessThan", "10", False),
        ("StringEqualsIfExists", "a", True),
        ("StringNotEqualsIfExists", "a", True),
        ("ForAllValues:StringEquals", "a", True),
        ("ForAnyValue:StringEquals", "a", False),
        ("Null", "true", True),
        ("Null", "false", False),
    ],
)
def test_holds__key_is_absent__follows_the_operator(
    operator: str, wanted: str, absent: bool
) -> None:
    assert holds(operator, wanted) is absent


def test_holds__null__asks_only_whether_the_key_is_there() -> None:
    assert holds("Null", "false", "")
    assert not holds("Null", "true", "")


def test_holds__if_exists__is_no_help_where_the_key_is_there() -> None:
    assert not holds("StringEqualsIfExists", "a", "b")


def test_holds__several_values_of_the_policy__one_is_enough_and_none_for_the_negation() -> None:
    assert holds("StringEquals", ("a", "b"), "b")
    assert not holds("StringNotEquals", ("a", "b"), "b")
    assert holds("StringNotEquals", ("a", "b"), "c")


@pytest.mark.parametrize(
    ("operator", "given", "expected"),
    [
        ("ForAllValues:StringEquals", ("a", "b"), True),
        ("ForAllValues:StringEquals", ("a", "x"), False),
        ("ForAnyValue:StringEquals", ("a", "x"), True),
        ("ForAnyValue:StringEquals", ("x", "y"), False),
        ("ForAnyValue:StringNotEquals", ("a", "x"), True),
        ("ForAnyValue:StringNotEquals", ("a", "b"), False),
        ("ForAllValues:StringNotEquals", ("x", "y"), True),
        ("ForAllValues:StringNotEquals", ("a", "x"), False),
        ("StringEquals", ("a", "x"), True),
        ("StringNotEquals", ("a", "x"), False),
    ],
)
def test_holds__several_values_of_the_request__are_counted(
    operator: str, given: tuple[str, ...], expected: bool
) -> None:
    assert holds(operator, ("a", "b"), *given) is expected


@pytest.mark.parametrize("given", ["", "x", "nan", "inf", "9" * 400])
def test_holds__value_that_is_no_number_date_or_address__never_matches(given: str) -> None:
    assert not holds("NumericLessThan", "10", given)
    assert not holds("DateLessThan", "2026-01-01", given)
    assert not holds("IpAddress", "0.0.0.0/0", given)


@pytest.mark.parametrize("operator", ["", "Equals", "BinaryEquals", "Bool:", "ForAnyValue:Null"])
def test_parse_condition__unknown_operator__is_refused(operator: str) -> None:
    with pytest.raises(ConditionError, match="Condition type"):
        parse_condition(operator, KEY, ("true",))
