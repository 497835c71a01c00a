from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ClientError, S3Code
from gateway.wire.byte_range import (
    RangeSpec,
    content_range,
    parse_copy_range,
    parse_range,
    unsatisfied_range,
)
from gateway.wire.extent import Extent

DATA = bytes(range(10))


@pytest.mark.parametrize(
    ("value", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=3-", 3, None),
        ("bytes=-4", None, 4),
        ("BYTES= 1-2 ", 1, 2),
        ("bytes=0-18446744073709551615", 0, 2**64 - 1),
    ],
)
def test_parse_range__one_range__is_read(value: str, first: int | None, last: int | None) -> None:
    assert parse_range(value) == RangeSpec(first, last, value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=2-1",
        "bytes=0-1,3-4",
        "items=0-1",
        "bytes=a-b",
        "bytes=+1-2",
        "bytes=1 -2",
        "bytes=٣-٤",
        "bytes=" + "1" * 5000 + "-",
    ],
)
def test_parse_range__malformed_or_several__means_everything(value: str | None) -> None:
    assert parse_range(value) is None


@given(st.integers(0, 12), st.none() | st.integers(0, 12))
def test_resolve__first_last__is_what_slicing_gives(first: int, last: int | None) -> None:
    expected = DATA[first:] if last is None else DATA[first : last + 1]

    extent = RangeSpec(first, last, "").resolve(len(DATA))

    assert (DATA[extent.offset_bytes : extent.end_bytes] if extent else b"") == expected


@given(st.integers(0, 12))
def test_resolve__suffix__is_what_slicing_gives(length_bytes: int) -> None:
    extent = RangeSpec(None, length_bytes, "").resolve(len(DATA))

    expected = DATA[max(0, len(DATA) - length_bytes) :]
    assert (DATA[extent.offset_bytes : extent.end_bytes] if extent else b"") == expected


@pytest.mark.parametrize("value", ["bytes=0-", "bytes=0-0", "bytes=-1"])
def test_resolve__empty_object__is_not_satisfiable(value: str) -> None:
    spec = parse_range(value)

    assert spec is not None
    assert spec.resolve(0) is None


def test_content_range__extent__is_inclusive() -> None:
    assert content_range(Extent(3, 4), 10) == "bytes 3-6/10"
    assert unsatisfied_range(10) == "bytes */10"


def test_parse_copy_range__first_last__is_read() -> None:
    assert parse_copy_range("bytes=0-9") == RangeSpec(0, 9, "bytes=0-9")


@pytest.mark.parametrize("value", ["", "bytes=0-", "bytes=-1", "bytes=2-1", "0-1", "bytes=0-1,2-3"])
def test_parse_copy_range__anything_else__is_invalid_argument(value: str) -> None:
    with pytest.raises(ClientError) as caught:
        parse_copy_range(value)
    assert caught.value.code is S3Code.INVALID_ARGUMENT
    assert caught.value.details["ArgumentValue"] == value
