from __future__ import annotations

import pytest
from request_heads import head

from gateway.auth.canonical import canonical_path, canonical_query, canonical_request
from gateway.errors import ClientError, S3Code


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("/", "/"),
        ("//a//b/", "//a//b/"),
        ("/./a/../b", "/./a/../b"),
        ("/a(b)!'*", "/a%28b%29%21%27%2A"),
        ("/a+b", "/a%2Bb"),
        ("/a%2bb%7e", "/a%2Bb~"),
        ("/b%25az", "/b%25az"),
        ("/%C3%A9é", "/%C3%A9%C3%A9"),
        ("/%00", "/%00"),
        ("/\udcff", "/%FF"),
    ],
)
def test_canonical_path__any_spelling__is_encoded_once(raw: str, canonical: str) -> None:
    assert canonical_path(raw) == canonical


@pytest.mark.parametrize("raw", ["/b%az", "/%", "/%1", "/\ud800"])
def test_canonical_path__broken_escape__is_invalid_uri(raw: str) -> None:
    with pytest.raises(ClientError) as caught:
        canonical_path(raw)
    assert caught.value.code is S3Code.INVALID_URI


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("", ""),
        ("versioning", "versioning="),
        ("b=2&a=1&a=0", "a=0&a=1&b=2"),
        ("prefix=a+b", "prefix=a%20b"),
        ("prefix=a%2Bb", "prefix=a%2Bb"),
        ("prefix=a/b", "prefix=a%2Fb"),
        ("a=b=c", "a=b%3Dc"),
        ("&&a", "a="),
        ("=x", "=x"),
        ("%7E=1&z=1", "z=1&~=1"),
    ],
)
def test_canonical_query__any_spelling__is_sorted_and_encoded_once(
    raw: str, canonical: str
) -> None:
    assert canonical_query(raw) == canonical


def test_canonical_query__parameter_to_omit__is_left_out() -> None:
    assert canonical_query("X-Amz-Signature=1&a=2", "X-Amz-Signature") == "a=2"


def test_canonical_request__header_values__are_joined_trimmed_and_collapsed() -> None:
    request = head(host="h", x_a="1")
    request = type(request)(
        "GET", "/", "", (*request.headers, ("x-a", "2 \t  3"), ("x-b", "\xc3\xa0  "))
    )

    text = canonical_request(request, ("host", "x-a", "x-b"), "hash")

    assert text == b"GET\n/\n\nhost:h\nx-a:1,2 3\nx-b:\xc3\xa0\n\nhost;x-a;x-b\nhash"
