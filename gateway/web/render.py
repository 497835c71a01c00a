"""Results and errors as HTTP: status, headers, XML; the only place where an error becomes a reply.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from xml.etree.ElementTree import Element

from gateway import __version__
from gateway.errors import GatewayError
from gateway.s3.results import JsonReply, ObjectReply, Reply, XmlReply
from gateway.wire import xml

# Exactly this: .NET clients refuse "; charset=utf-8" on errors (aws-sdk-net#3009).
_XML = ("content-type", "application/xml")
_JSON = ("content-type", "application/json")
_SERVER = f"s3rdma/{__version__}"
HOST_ID = base64.b64encode(secrets.token_bytes(24)).decode("ascii")  # which process answered
_BODILESS = frozenset({204, 304})  # RFC 9110 sections 15.3.5 and 15.4.5

# Header values come from clients (metadata, response-* overrides): none may end its line.
_CONTROLS = {code: " " for code in (*range(0x20), 0x7F) if code != 0x09}
_SPELLINGS = {"etag": "ETag", "content-md5": "Content-MD5"}


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply that needs nothing but sending.

    Attributes:
        headers: complete but for Date and Connection; names in lower case.
        body: all of the body, or b"" where `delivery` brings it.
        delivery: an open object whose extent is the body; whoever sends it closes the reader.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    delivery: ObjectReply | None = None

    def head(self, date: str, *, close: bool) -> bytes:
        """Status line and header fields, up to and with the empty line.

        Args:
            date: an HTTP-date (RFC 9110 section 5.6.7).
            close: say that the connection ends with this reply.
        """
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\nDate: {date}\r\n"]
        lines += [
            f"{_spelled(name)}: {value.translate(_CONTROLS)}\r\n" for name, value in self.headers
        ]
        lines.append("Connection: close\r\n\r\n" if close else "\r\n")
        text = "".join(lines)
        try:
            # Values that came in as latin-1 text of any bytes go out as the same bytes.
            return text.encode("latin-1")
        except UnicodeEncodeError:
            return text.encode("utf-8")


def render(result: Reply, *, method: str, request_id: str) -> HttpReply:
    """A verb's result as HTTP."""
    headers = (*_identity(request_id), *result.headers)
    match result:
        case ObjectReply():
            length = ("content-length", str(result.extent.length_bytes))
            if result.get("content-length") is None:
                headers = (*headers, length)
            return HttpReply(result.status, headers, delivery=result)
        case XmlReply():
            return _document(result.status, headers, result.root, method)
        case JsonReply():
            return _whole(result.status, headers, _JSON, result.text.encode("utf-8"), method)
    if result.status not in _BODILESS and method != "HEAD" and result.get("content-length") is None:
        headers = (*headers, ("content-length", "0"))
    return HttpReply(result.status, headers)


def render_error(error: GatewayError, *, method: str, resource: str, request_id: str) -> HttpReply:
    """An error as S3's XML; without a body for HEAD and 304.

    Args:
        error: what the request ended in.
        method: the request's.
        resource: the raw path asked for.
        request_id: as the log has it.
    """
    headers = (*_identity(request_id), *((name.lower(), v) for name, v in error.headers.items()))
    status = error.code.status
    if status in _BODILESS:
        return HttpReply(status, headers)
    elements = {"Code": error.code.code, "Message": error.message} | dict(error.details)
    elements |= {"Resource": resource, "RequestId": request_id, "HostId": HOST_ID}
    children = (xml.element(name, text=text) for name, text in elements.items())
    return _document(status, headers, xml.element("Error", *children), method)


def _document(
    status: int, headers: tuple[tuple[str, str], ...], root: Element, method: str
) -> HttpReply:
    return _whole(status, headers, _XML, xml.render(root), method)


def _whole(
    status: int,
    headers: tuple[tuple[str, str], ...],
    content_type: tuple[str, str],
    body: bytes,
    method: str,
) -> HttpReply:
    headers = (*headers, content_type, ("content-length", str(len(body))))
    return HttpReply(status, headers, b"" if method == "HEAD" else body)


def _identity(request_id: str) -> tuple[tuple[str, str], ...]:
    return (("server", _SERVER), ("x-amz-request-id", request_id), ("x-amz-id-2", HOST_ID))


@lru_cache(maxsize=512)
def _spelled(name: str) -> str:
    """A header name as S3 writes it: ``Content-Length``, but ``x-amz-…`` as it is."""
    if name.startswith("x-amz-"):
        return name
    return _SPELLINGS.get(name) or name.title()
