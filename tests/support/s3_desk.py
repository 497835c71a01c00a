"""The S3 verbs behind botocore's own serialiser and parser, without HTTP between them.

A request is what botocore would send, and a reply is read as botocore reads it: so names, shapes
and encodings of both are judged by S3's published model, not by the gateway's code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

import botocore.session
import pytest
from bodies import BytesBody
from botocore.awsrequest import HeadersDict
from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from gateway.auth.accounts import Accounts
from gateway.auth.principal import Principal
from gateway.config import HttpLimits
from gateway.errors import GatewayError, S3Code
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.dispatch import perform
from gateway.s3.operations import Operation
from gateway.s3.requester import Requester
from gateway.s3.results import ObjectReply, Reply, XmlReply
from gateway.s3.route import route
from gateway.storage.port import Storage
from gateway.wire.request import RequestHead
from gateway.wire.xml import render

_MODEL = botocore.session.get_session().get_service_model("s3")
_SERIALISER = create_serializer("rest-xml", include_validation=False)
_PARSER = create_parser("rest-xml")


def request(operation: str, **arguments: Any) -> tuple[RequestHead, bytes]:
    """The head and body with which botocore would ask for an operation, path-style."""
    model = _MODEL.operation_model(operation)
    made = _SERIALISER.serialize_to_request(arguments, model)
    headers = [(name.lower(), _header_text(value)) for name, value in made["headers"].items()]
    body = made["body"] or b""
    return (
        RequestHead(
            method=made["method"],
            raw_path=made["url_path"],
            raw_query=_raw_query(made["url_path"], made["query_string"]),
            headers=(("host", "127.0.0.1:9000"), *headers),
        ),
        body.encode() if isinstance(body, str) else bytes(body),
    )


def _header_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _raw_query(url_path: str, parameters: Any) -> str:
    """The query of the model's own path (``?versions``), then the arguments."""
    fixed = url_path.partition("?")[2]
    given = urlencode(parameters, quote_via=quote)
    return "&".join(part for part in (fixed, given) if part)


@contextmanager
def refused(code: S3Code) -> Iterator[pytest.ExceptionInfo[GatewayError]]:
    """The block ends in that error."""
    with pytest.raises(GatewayError) as caught:
        yield caught
    assert caught.value.code is code, caught.value.code


async def _permit(_operation: Operation) -> None:
    """Allow everything."""


class Desk:
    """Asks the verbs as a client would, and reads their replies as one.

    Attributes:
        authorise: the policy hook of every request.
        principal: who asks.
        accounts: who exists.
        now_s: when; POSIX seconds.
        region: the gateway's.
        limits: of every request.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.authorise: Callable[[Operation], Awaitable[None]] = _permit
        self.principal = Principal("key")
        self.accounts = Accounts()
        self.now_s = 0.0
        self.region = "us-east-1"
        self.limits = HttpLimits()

    async def ask(self, operation: str, body: Body | None = None, /, **arguments: Any) -> Any:
        """The parsed reply, with botocore's keys; a GET's bytes are under "Body"."""
        head, written = request(operation, **arguments)
        reply = await self.perform(head, body or BytesBody(written))
        return await _parsed(operation, reply)

    async def perform(self, head: RequestHead, body: Body | None = None) -> Reply:
        """Route and do what a head says."""
        context = Context(
            storage=self.storage,
            requester=Requester(self.principal, now_s=self.now_s),
            region=self.region,
            limits=self.limits,
            authorise=self.authorise,
            accounts=self.accounts,
        )
        path = head.raw_path.partition("?")[0]
        operation = route(replace(head, raw_path=path))
        return await perform(operation, body or BytesBody(), context)


async def read_object(reply: Reply) -> bytes:
    """What would be sent as the body of a GET; closes the reader."""
    assert isinstance(reply, ObjectReply)
    try:
        return await reply.reader.read(reply.extent.offset_bytes, reply.extent.length_bytes)
    finally:
        await reply.reader.close()


async def _parsed(operation: str, reply: Reply) -> Any:
    document = render(reply.root) if isinstance(reply, XmlReply) else b""
    headers = HeadersDict(dict(reply.headers))
    wire = {"status_code": reply.status, "headers": headers, "body": document}
    parsed = _PARSER.parse(wire, _MODEL.operation_model(operation).output_shape)
    if isinstance(reply, ObjectReply):
        parsed["Body"] = await read_object(reply)
    return parsed
