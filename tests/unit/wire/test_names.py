from __future__ import annotations

import pytest

from gateway.errors import ClientError, S3Code
from gateway.wire.names import check_bucket_name, check_key


@pytest.mark.parametrize(
    "name", ["abc", "a" * 63, "a.b-c", "1bucket9", "my-bucket", "1.2.3", "a--b"]
)
def test_check_bucket_name__s3_allows_it__passes(name: str) -> None:
    check_bucket_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ab",
        "a" * 64,
        "Abc",
        "a_b",
        "-abc",
        "abc-",
        ".abc",
        "abc.",
        "a..b",
        "a-.b",
        "a.-b",
        "192.168.0.1",
        "xn--abc",
        "abc-s3alias",
        "abc--x-s3",
        "a/b",
        "abé",
        "abc\n",
    ],
)
def test_check_bucket_name__s3_forbids_it__is_invalid_bucket_name(name: str) -> None:
    with pytest.raises(ClientError) as caught:
        check_bucket_name(name)
    assert caught.value.code is S3Code.INVALID_BUCKET_NAME


def test_check_key__1024_bytes__passes() -> None:
    check_key("é" * 512)


def test_check_key__1025_bytes__is_key_too_long() -> None:
    with pytest.raises(ClientError) as caught:
        check_key("é" * 512 + "a")
    assert caught.value.code is S3Code.KEY_TOO_LONG
    assert caught.value.details == {"Size": "1025", "MaxSizeAllowed": "1024"}
