"""botocore signs odd keys, queries and headers; we verify, however the wire spells them."""

from __future__ import annotations

import re
import string
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from request_heads import (
    ACCESS_KEY,
    REGION,
    STORE,
    presigned_by_botocore,
    signed_by_botocore,
    with_header,
)

from gateway.auth.payload import PayloadMode
from gateway.auth.sigv4 import verify
from gateway.errors import ClientError

ORIGIN = "http://127.0.0.1:9000"
UNRESERVED = string.ascii_letters + string.digits + "-._~"

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
keys = st.one_of(
    texts.filter(bool),
    st.text(st.sampled_from("a/.%+? ~()!'*&=#é漢"), min_size=1, max_size=12),
)
queries = st.lists(st.tuples(texts.filter(bool), texts), max_size=4).filter(
    lambda pairs: not any(name.startswith(("X-Amz-", "AWSAccessKeyId")) for name, _ in pairs)
)
values = st.text(
    st.sampled_from(string.ascii_letters + '  \t,;"é漢à'), min_size=1, max_size=20
).filter(lambda text: text.strip(" \t"))


def url_of(key: str, query: list[tuple[str, str]]) -> str:
    parameters = "&".join(
        f"{quote(name, safe='-._~')}={quote(text, safe='-._~')}" for name, text in query
    )
    return f"{ORIGIN}/bucket/{quote(key, safe='/-._~')}" + (f"?{parameters}" if parameters else "")


@given(keys, queries, values)
def test_verify__signed_by_botocore__is_accepted(
    key: str, query: list[tuple[str, str]], value: str
) -> None:
    head, now_s = signed_by_botocore("PUT", url_of(key, query), {"x-amz-meta-note": value})

    verified = verify(head, STORE, now_s, REGION)

    assert verified.principal.access_key == ACCESS_KEY
    assert "x-amz-meta-note" in verified.signed_headers


@given(keys, queries)
def test_verify__wire_spells_the_url_otherwise__is_accepted(
    key: str, query: list[tuple[str, str]]
) -> None:
    signed = url_of(key, query)
    # Lower-case hex, and the sub-delimiters and UTF-8 that many clients leave unescaped.
    wire = re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), signed)
    path, mark, rest = wire.partition("?")
    for character in "()!'*,;:@$é":
        path = path.replace(quote(character, safe="").lower(), character)
    head, now_s = signed_by_botocore("GET", signed, {}, wire=path + mark + rest)

    assert verify(head, STORE, now_s, REGION).principal.access_key == ACCESS_KEY


@given(keys, queries)
def test_verify__presigned_by_botocore__is_accepted(key: str, query: list[tuple[str, str]]) -> None:
    head, now_s = presigned_by_botocore("GET", url_of(key, query), {})

    verified = verify(head, STORE, now_s, REGION)

    assert verified.presigned
    assert verified.payload.mode is PayloadMode.UNSIGNED


@given(keys.filter(lambda key: len(key) > 1))
def test_verify__another_key_than_the_signed_one__is_refused(key: str) -> None:
    head, now_s = signed_by_botocore("GET", url_of(key, []), {}, wire=url_of(key[:-1], []))

    with pytest.raises(ClientError):
        verify(head, STORE, now_s, REGION)


@pytest.mark.parametrize(
    "key", ["//a", "a//b", "./a", "a/../b", "..", "/", "a/", "b%az", "%3F", "a b", "a+b", "ü/漢"]
)
def test_verify__keys_that_peers_normalised__are_accepted(key: str) -> None:
    head, now_s = signed_by_botocore("GET", url_of(key, []), {})
    signed, presigned_s = presigned_by_botocore("GET", url_of(key, []), {})

    assert head.raw_path == f"/bucket/{quote(key, safe='/-._~')}"
    assert not verify(head, STORE, now_s, REGION).principal.anonymous
    assert not verify(signed, STORE, presigned_s, REGION).principal.anonymous


def test_verify__header_with_runs_of_spaces__is_signed_collapsed() -> None:
    head, now_s = signed_by_botocore("PUT", f"{ORIGIN}/b/k", {"x-amz-meta-a": "x   y"})

    assert head.get("x-amz-meta-a") == "x   y"
    verify(head, STORE, now_s, REGION)
    verify(with_header(head, "x-amz-meta-a", "x  y"), STORE, now_s, REGION)
    with pytest.raises(ClientError):
        verify(with_header(head, "x-amz-meta-a", "xy"), STORE, now_s, REGION)
