"""aiohttp's idea of a request's head as ours: every byte of the target and the fields kept."""

from __future__ import annotations

import re

from aiohttp.web import BaseRequest

from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.web.connection import Origin
from gateway.wire.request import RequestHead

_ABSOLUTE = re.compile(r"https?://[^/?]*", re.IGNORECASE)


def read_head(request: BaseRequest, origin: Origin | None = None) -> RequestHead:
    """The head as it stood on the wire. Never fails: `check_head` judges it.

    Args:
        request: aiohttp's.
        origin: of a connection that another worker accepted.
    """
    target = request.raw_path
    absolute = _ABSOLUTE.match(target)  # RFC 9112 section 3.2.2
    if absolute is not None:
        target = target[absolute.end() :]
        target = target if target.startswith("/") else "/" + target
    raw_path, _, raw_query = target.partition("?")
    return RequestHead(
        method=request.method,
        raw_path=raw_path,
        raw_query=raw_query,
        headers=tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t"))
            for name, value in request.raw_headers
        ),
        remote_ip=(request.remote or "") if origin is None else origin.remote_ip,
        secure=request.secure if origin is None else origin.secure,
    )


def check_head(head: RequestHead, limits: HttpLimits) -> None:
    """Refuse what two parsers could read in two ways, and what is too long.

    Raises:
        ClientError: RequestHeaderSectionTooLarge, InvalidURI, InvalidRequest, NotImplemented.
    """
    if sum(len(name) + len(value) + 4 for name, value in head.headers) > limits.max_header_bytes:
        raise ClientError(S3Code.REQUEST_HEADER_SECTION_TOO_LARGE)
    if not (head.raw_path.startswith("/") and (head.raw_path + head.raw_query).isascii()):
        raise ClientError(S3Code.INVALID_URI)
    coding = head.get("transfer-encoding")
    if coding is None:
        return
    if head.get("content-length") is not None:  # RFC 9112 section 6.1: smuggling
        raise ClientError(
            S3Code.INVALID_REQUEST, "Content-Length and Transfer-Encoding exclude each other."
        )
    if coding.lower() != "chunked":
        raise ClientError(
            S3Code.NOT_IMPLEMENTED, "The only Transfer-Encoding implemented is chunked."
        )
