from __future__ import annotations

import pytest

from gateway.client.address import address, parse_endpoint


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a b", "/b/a%20b"),
        ("+%?#&=", "/b/%2B%25%3F%23%26%3D"),
        ("../x/./y", "/b/../x/./y"),
        ("/lead//twice/", "/b//lead//twice/"),
        ("é\n\x00", "/b/%C3%A9%0A%00"),
        ("~-._", "/b/~-._"),
    ],
)
def test_address__of_a_key__is_encoded_once_and_never_normalised(key: str, path: str) -> None:
    assert address("b", key) == path


def test_address__query__is_encoded_and_in_order() -> None:
    query = {"uploads": "", "prefix": "a/b +"}
    assert address("b", query=query) == "/b?uploads=&prefix=a%2Fb%20%2B"
    assert address() == "/"


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://h:9000/", "http://h:9000"),
        ("https://h", "https://h"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_endpoint__well_formed__is_kept(url: str, endpoint: str) -> None:
    assert parse_endpoint(url) == endpoint


@pytest.mark.parametrize(
    "url", ["h:9000", "ftp://h", "http://", "http://h/path", "http://h?x", "http://user:pw@h"]
)
def test_endpoint__anything_else__is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_endpoint(url)
