"""262 requests of real clients: each verifies, and fails once anything it signed has changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from request_heads import REGION, Captured, captured_requests, captured_store, with_header

from gateway.auth.sigv4 import verify
from gateway.errors import ClientError
from gateway.wire.request import RequestHead

IDS = [f"{index}-{request.client}" for index, request in enumerate(captured_requests())]
each_request = pytest.mark.parametrize("request_", captured_requests(), ids=IDS)


def test_captured__count__is_what_was_captured() -> None:
    assert len(captured_requests()) == 262


@each_request
def test_captured__as_sent__verifies(request_: Captured) -> None:
    verified = verify(request_.head, captured_store(), request_.sent_s, REGION)

    assert not verified.principal.anonymous
    assert not verified.presigned
    assert "host" in verified.signed_headers


@each_request
def test_captured__one_bit_of_the_signature__is_refused(request_: Captured) -> None:
    authorization = request_.head.get("authorization") or ""
    prefix, signature = authorization[:-64], authorization[-64:]
    for index, digit in enumerate(signature):
        forged = signature[:index] + f"{int(digit, 16) ^ 1:x}" + signature[index + 1 :]
        assert_refused(request_, with_header(request_.head, "authorization", prefix + forged))


@each_request
def test_captured__path_query_or_method_changed__is_refused(request_: Captured) -> None:
    for changed in changed_start_lines(request_.head):
        assert_refused(request_, changed)


@each_request
def test_captured__signed_header_changed_or_removed__is_refused(request_: Captured) -> None:
    verified = verify(request_.head, captured_store(), request_.sent_s, REGION)
    for name in verified.signed_headers:
        value = request_.head.get(name) or ""
        flipped = value[:-1] + chr(ord(value[-1]) ^ 1)
        for text in (flipped, value + "x", None):
            assert_refused(request_, with_header(request_.head, name, text))


@each_request
def test_captured__date_a_second_later__is_refused(request_: Captured) -> None:
    date = request_.head.get("x-amz-date") or ""
    later = f"{date[:13]}{(int(date[13:15]) + 1) % 60:02}Z"
    assert_refused(request_, with_header(request_.head, "x-amz-date", later))


@each_request
def test_captured__another_secret__is_refused(request_: Captured) -> None:
    key = (request_.head.get("authorization") or "").split("Credential=")[1].split("/")[0]
    others = [other for other in captured_store()._entries if other != key]
    forged = (request_.head.get("authorization") or "").replace(key, others[0])
    assert_refused(request_, with_header(request_.head, "authorization", forged))


def changed_start_lines(head: RequestHead) -> Iterator[RequestHead]:
    yield replace(head, raw_path=head.raw_path + "x")
    yield replace(head, raw_path="/" + head.raw_path)
    last = head.raw_path[-1]
    yield replace(head, raw_path=head.raw_path[:-1] + chr(ord(last) ^ 1))
    yield replace(head, raw_query=head.raw_query + "&x-id=1")
    yield replace(head, method="DELETE" if head.method != "DELETE" else "GET")
    if head.raw_query:
        last = head.raw_query[-1]
        yield replace(head, raw_query=head.raw_query[:-1] + chr(ord(last) ^ 1) + "x")
        yield replace(head, raw_query="")


def assert_refused(request_: Captured, changed: RequestHead) -> None:
    with pytest.raises(ClientError) as caught:
        verify(changed, captured_store(), request_.sent_s, REGION)
    assert caught.value.code.status in {400, 403}
