"""web.heads: aiohttp's parser in front, every byte kept behind."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser
from request_heads import head as make_head

from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.web.heads import check_head, read_head
from gateway.wire.request import RequestHead


class Request:
    """The part of aiohttp's request that is read, over its real parser."""

    remote = "192.0.2.1"
    secure = False

    def __init__(self, data: bytes, loop: object) -> None:
        parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16)  # type: ignore[arg-type]
        ((message, _),), _, _ = parser.feed_data(data)
        self.raw_path = message.path
        self.raw_headers = message.raw_headers
        self.method = message.method


async def read(target: bytes, fields: bytes = b"") -> RequestHead:
    data = b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n" + fields + b"\r\n"
    return read_head(Request(data, asyncio.get_running_loop()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/b/k", "/b/k", ""),
        (b"//b/x?", "//b/x", ""),
        (b"/b/a%2Fb%00%zz/./../", "/b/a%2Fb%00%zz/./../", ""),
        (b"/b?list-type=2&prefix=a?b", "/b", "list-type=2&prefix=a?b"),
        (b"http://other:80/b/k?x", "/b/k", "x"),
        (b"http://other", "/", ""),
        (b"HTTPS://other?acl", "/", "acl"),
    ],
)
async def test_read_head__any_target__keeps_it_as_sent(
    target: bytes, path: str, query: str
) -> None:
    made = await read(target)
    assert (made.raw_path, made.raw_query) == (path, query)


async def test_read_head__fields__keep_order_repetition_inner_spaces_and_bytes() -> None:
    made = await read(b"/", b"X-Amz-Meta-A:  one  two \t\r\nx-b: \xc3\xa9\r\nX-B: second\r\n")
    assert made.headers == (
        ("host", "h"),
        ("x-amz-meta-a", "one  two"),
        ("x-b", "\u00c3\u00a9"),
        ("x-b", "second"),
    )
    assert made.remote_ip == "192.0.2.1"


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (make_head("OPTIONS", "*"), S3Code.INVALID_URI),
        (make_head("GET", "/b/\u00e9"), S3Code.INVALID_URI),
        (make_head("GET", "/", a="v" * 65_536), S3Code.REQUEST_HEADER_SECTION_TOO_LARGE),
        (
            make_head("PUT", "/", content_length="1", transfer_encoding="chunked"),
            S3Code.INVALID_REQUEST,
        ),
        (make_head("PUT", "/", transfer_encoding="gzip, chunked"), S3Code.NOT_IMPLEMENTED),
    ],
)
def test_check_head__ambiguous_or_too_long__is_refused(made: RequestHead, code: S3Code) -> None:
    with pytest.raises(ClientError) as failure:
        check_head(made, HttpLimits())
    assert failure.value.code is code


@pytest.mark.parametrize(
    "made", [make_head("GET", "/"), make_head("PUT", "/", transfer_encoding="Chunked")]
)
def test_check_head__plain__passes(made: RequestHead) -> None:
    check_head(made, HttpLimits())
