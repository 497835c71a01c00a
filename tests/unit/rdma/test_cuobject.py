from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from gateway.auth.payload import parse_payload
from gateway.auth.principal import Principal
from gateway.auth.sigv4 import Verified
from gateway.config import RdmaConfig
from gateway.errors import ClientError, S3Code
from gateway.rdma import cuobject
from gateway.rdma.cuobject import TokenKind, classify
from gateway.rdma.rc_connection import ConnectionService
from gateway.rdma.rc_transfer import Carriage
from gateway.s3.body import Body
from gateway.s3.operations import GetObject, HeadObject, ListObjects, PutObject, UploadPart
from gateway.s3.results import ObjectReply, Reply, XmlReply
from gateway.storage.port import ObjectAttributes, ObjectReader
from gateway.wire.extent import Extent
from gateway.wire.request import RequestHead

# The shape that PROTOCOL section 4 gives, as cuObject, minio-cpp and NooBaa write it.
DC = "00007f3a5c000000:00100000:0000a1b2:0000:0001f4:1:fe80000000000000506b4b0300c0ffee"
RC = "rc:" + "0123456789abcdef" * 2 + ":7f3a5c000000:100000:a1b2"

GET = GetObject("bucket", "key")
WRITES = [
    PutObject("bucket", "key", ObjectAttributes()),
    UploadPart("bucket", "key", "upload", 1),
]


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        (RC, TokenKind.CONNECTION),
        (RC.upper().replace("RC:", "rc:"), TokenKind.CONNECTION),
        (DC, TokenKind.CUOBJECT),
        (DC.upper(), TokenKind.CUOBJECT),
        (DC + ";", TokenKind.CUOBJECT),
        (DC + ":00007f3a5c000000:0000000000100000", TokenKind.CUOBJECT),
        (DC + ":00007f3a5c000000:0000000000100000;", TokenKind.CUOBJECT),
        ("01" + "0" * 86, TokenKind.UNPAIRED),
        ("01" + "0" * 86 + ":7f00:1000", TokenKind.UNPAIRED),
        ("tcp:ofi1:fi_sockaddr_in://10.0.0.1:7471", TokenKind.LIBFABRIC),
        ("ofi1:x", TokenKind.LIBFABRIC),
        ("", TokenKind.MALFORMED),
        ("rc:", TokenKind.MALFORMED),
        ("rc:0123:7f00:1000:1", TokenKind.MALFORMED),
        (DC[:-1], TokenKind.MALFORMED),
        (DC + ":00007f3a5c000000", TokenKind.MALFORMED),
        (DC + "\n", TokenKind.MALFORMED),
        ("0" * 87, TokenKind.MALFORMED),
        ("hello", TokenKind.MALFORMED),
    ],
)
def test_classify__each_row_of_protocol_section_4(token, kind):
    assert classify(token) is kind


def head(*headers: tuple[str, str]) -> RequestHead:
    return RequestHead("PUT", "/bucket/key", "", (("host", "gateway"), *headers))


def verified(*names: str, key: str | None = "AK") -> Verified:
    return Verified(Principal(key), parse_payload("UNSIGNED-PAYLOAD"), frozenset({"host", *names}))


SIGNED = verified("x-amz-rdma-token")


async def answer(head, operation, verified, perform) -> Reply:
    """By a gateway that has no connections: what there is to carry, it declines."""
    carriage = Carriage(ConnectionService(None, RdmaConfig()), 1.0)
    return await cuobject.answer(head, operation, verified, perform, carriage)


class Plain:
    """The operation over plain HTTP, counted."""

    def __init__(self, reply: Reply):
        self.reply, self.calls = reply, 0

    async def __call__(self, by_rdma: Body | None = None) -> Reply:
        assert by_rdma is None
        self.calls += 1
        return self.reply


NOT_READ = cast(ObjectReader, None)
OBJECT = ObjectReply(206, (("etag", '"e"'),), reader=NOT_READ, extent=Extent(0, 1))


@pytest.mark.parametrize("token", [RC, DC, "x:ofi1:y"])
async def test_answer__get_with_a_token__body_as_usual_and_reply_501(token):
    plain = Plain(OBJECT)
    reply = await answer(head(("x-amz-rdma-token", token)), GET, SIGNED, plain)
    assert reply == replace(OBJECT, headers=(("etag", '"e"'), ("x-amz-rdma-reply", "501")))


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("token", [RC, DC, "x:ofi1:y"])
async def test_answer__write_with_a_token__nothing_stored_and_no_etag(operation, token):
    plain = Plain(Reply(200, (("etag", '"e"'),)))
    reply = await answer(head(("x-amz-rdma-token", token)), operation, SIGNED, plain)
    assert plain.calls == 0
    assert isinstance(reply, XmlReply)
    assert (reply.status, reply.headers) == (200, (("x-amz-rdma-reply", "501"),))
    assert (reply.root.tag, reply.root.findtext("Code")) == ("Error", "RDMANotSupported")


async def test_answer__rdma_info_header__declined_without_being_signed_itself():
    reply = await answer(head(("x-rdma-info", "v=1")), WRITES[0], verified(), Plain(OBJECT))
    assert reply.get("x-amz-rdma-reply") == "501"


@pytest.mark.parametrize("operation", [GET, *WRITES])
async def test_answer__malformed_token__400(operation):
    plain = Plain(OBJECT)
    with pytest.raises(ClientError) as caught:
        await answer(head(("x-amz-rdma-token", "hello")), operation, SIGNED, plain)
    assert caught.value.code is S3Code.INVALID_RDMA_TOKEN
    assert plain.calls == 0
    assert "hello" not in caught.value.message


@pytest.mark.parametrize("operation", [GET, *WRITES])
async def test_answer__bare_rc_token__501_unsupported(operation):
    with pytest.raises(ClientError) as caught:
        await answer(head(("x-amz-rdma-token", "01" + "0" * 86)), operation, SIGNED, Plain(OBJECT))
    assert caught.value.code.status == 501
    assert caught.value.headers == {"x-amz-rdma-protocol-status": "unsupported"}


@pytest.mark.parametrize("operation", [GET, *WRITES])
@pytest.mark.parametrize(("who", "status"), [(verified(), 400), (verified(key=None), 403)])
async def test_answer__token_not_signed__refused(operation, who, status):
    with pytest.raises(ClientError) as caught:
        await answer(head(("x-amz-rdma-token", DC)), operation, who, Plain(OBJECT))
    assert caught.value.code.status == status


@pytest.mark.parametrize("operation", [HeadObject("bucket", "key"), ListObjects("bucket")])
async def test_answer__other_operations__token_ignored(operation):
    plain = Plain(Reply(200))
    reply = await answer(head(("x-amz-rdma-token", "hello")), operation, verified(), plain)
    assert reply == Reply(200)


async def test_answer__no_token__untouched():
    assert await answer(head(), GET, verified(), Plain(OBJECT)) is OBJECT


async def test_answer__reply_without_an_object__untouched():
    reply = Reply(304)
    assert await answer(head(("x-amz-rdma-token", DC)), GET, SIGNED, Plain(reply)) is reply
