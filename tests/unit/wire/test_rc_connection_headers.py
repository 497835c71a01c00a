"""Connections' headers and tokens: PROTOCOL sections 3 and 4, both ways."""

from __future__ import annotations

import pytest

from gateway.errors import ClientError, S3Code, TransportError
from gateway.wire.rc_connection import (
    ConnectReply,
    ConnectRequest,
    TransferToken,
    connect_headers,
    connect_reply_headers,
    parse_connect,
    parse_connect_reply,
    parse_cookie,
    parse_disconnect,
)
from gateway.wire.rc_token import RcToken, Transport
from gateway.wire.request import RequestHead

ID = "00112233445566778899aabbccddeeff"
GID = bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 7])
TOKEN = RcToken(Transport.RC, 0x123456, GID, port_num=1, lid=9)


def post(*headers: tuple[str, str]) -> RequestHead:
    return RequestHead("POST", "/.s3rdma-rc/connect", "", headers)


def test_token__as_the_protocol_writes_it__is_read() -> None:
    token = TransferToken.parse(f"rc:{ID}:7f0012ab0000:1000:1ff")
    assert token == TransferToken(ID, 0x7F0012AB0000, 4096, 0x1FF)
    assert token.format() == f"rc:{ID}:7f0012ab0000:1000:1ff"


def test_token__upper_case__is_read() -> None:
    assert TransferToken.parse(f"RC:{ID.upper()}:A:B:C") == TransferToken(ID, 10, 11, 12)


def test_token__shown__hides_the_rkey() -> None:
    assert "48879" not in repr(TransferToken(ID, 1, 2, 0xBEEF))


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"rc:{ID}:1:1",
        f"rc:{ID}:1:1:1:1",
        f"rc:{ID[1:]}:1:1:1",
        f"rc:{ID}:1:1:123456789",
        f"rc:{ID}:12345678901234567:1:1",
        f"rc:{ID}:ffffffffffffffff:2:1",
        f"rc:{ID}:-1:1:1",
        f" rc:{ID}:1:1:1",
        f"rc:{ID}:1:1:1\n",
    ],
)
def test_token__malformed__is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ClientError) as caught:
        TransferToken.parse(text)
    assert caught.value.code is S3Code.INVALID_RDMA_TOKEN
    assert ID not in str(caught.value)


def test_connect__written_and_read__is_the_same() -> None:
    request = ConnectRequest(TOKEN, 0x00ABCD)
    assert connect_headers(request)[1] == ("x-amz-rdma-psn", "00abcd")
    assert parse_connect(post(*connect_headers(request))) == request


def test_connect_reply__written_and_read__is_the_same() -> None:
    reply = ConnectReply(ID, TOKEN, 7)
    headers = connect_reply_headers(reply)
    assert dict(headers)["x-amz-rdma-reply"].startswith("200:01")
    assert parse_connect_reply(headers) == reply
    spaced = [(name, value.replace("200:", "200 ", 1)) for name, value in headers]
    assert parse_connect_reply(spaced) == reply


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-amz-rdma-reply", "501"),
        ("x-amz-rdma-reply", "200:00"),
        ("x-amz-rdma-session", "short"),
        ("x-amz-rdma-psn", "000000"),
    ],
)
def test_connect_reply__malformed__is_the_peers_fault(name: str, value: str) -> None:
    headers = dict(connect_reply_headers(ConnectReply(ID, TOKEN, 7))) | {name: value}
    with pytest.raises(TransportError, match=name):
        parse_connect_reply(headers.items())


@pytest.mark.parametrize("psn", ["0", "1000000", "xyz", ""])
def test_connect__psn_out_of_range__is_refused(psn: str) -> None:
    head = post(("x-amz-rdma-token", TOKEN.format()), ("x-amz-rdma-psn", psn))
    with pytest.raises(ClientError, match="x-amz-rdma-psn"):
        parse_connect(head)


def test_disconnect__not_an_id__names_nothing() -> None:
    assert parse_disconnect(post(("x-amz-rdma-session", ID.upper()))) == ID
    assert parse_disconnect(post(("x-amz-rdma-session", "1"))) is None
    assert parse_disconnect(post()) is None


def test_cookie__absent_zero_or_malformed() -> None:
    assert parse_cookie(post()) is None
    assert parse_cookie(post(("x-amz-rdma-cookie", "00C0FFEE"))) == 0xC0FFEE
    for text in ("00000000", "c0ffee", "00000000f"):
        with pytest.raises(ClientError, match="x-amz-rdma-cookie"):
            parse_cookie(post(("x-amz-rdma-cookie", text)))
