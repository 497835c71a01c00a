from __future__ import annotations

import pytest
from request_heads import head

from gateway.errors import ClientError, S3Code
from gateway.wire.request import decode_path, decode_query, parse_query


def test_request_head__repeated_header__keeps_all_in_order() -> None:
    request = head(a="1", b="2")
    request = type(request)("GET", "/", "", (*request.headers, ("a", "3")))

    assert list(request.values("a")) == ["1", "3"]
    assert request.get("a") == "1"
    assert request.get("c") is None


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("/a%20b+c", "/a b+c"),
        ("//a/../b", "//a/../b"),
        ("%C3%A9", "é"),
        ("é", "é"),
        ("%25zz", "%zz"),
        ("%00", "\0"),
        ("", ""),
    ],
)
def test_decode_path__valid__is_decoded_once(raw: str, text: str) -> None:
    assert decode_path(raw) == text


@pytest.mark.parametrize("raw", ["%", "%1", "%zz", "b%az", "%FF", "%C3", "%ED%A0%80", "\udcff"])
def test_decode_path__broken_escape_or_no_utf8__is_invalid_uri(raw: str) -> None:
    with pytest.raises(ClientError) as caught:
        decode_path(raw)
    assert caught.value.code is S3Code.INVALID_URI


def test_parse_query__pieces__stay_encoded() -> None:
    assert parse_query("versioning&a=b%20c&&d=e=f&=") == (
        ("versioning", ""),
        ("a", "b%20c"),
        ("d", "e=f"),
        ("", ""),
    )


def test_decode_query__plus__is_a_space() -> None:
    assert decode_query("a+b=c%2Bd+e") == (("a b", "c+d e"),)


def test_decode_query__broken_escape__is_invalid_uri() -> None:
    with pytest.raises(ClientError):
        decode_query("a=%")


def test_decode_path__lone_surrogate__is_invalid_uri() -> None:
    with pytest.raises(ClientError) as caught:
        decode_path("/\ud800")
    assert caught.value.code is S3Code.INVALID_URI
