"""Which token is which, how each is declined or refused, and that no decline ever stores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from raw_http import RawClient
from rc_client import UNSIGNED_PAYLOAD, Desk, RcClient

DATA = b"the object as it was"
CUOBJECT = "00007f3a5c000000:00100000:0000a1b2:0000:0001f4:1:fe80000000000000506b4b0300c0ffee"
UNKNOWN = "rc:" + "0" * 32 + ":7f3a5c000000:100:a1b2"
DECLINED = [
    UNKNOWN,
    UNKNOWN.upper().replace("RC:", "rc:"),
    CUOBJECT,
    CUOBJECT.upper() + ";",
    CUOBJECT + ":00007f3a5c000000:0000000000100000",
    CUOBJECT + ":00007f3a5c000000:0000000000100000;",
    "tcp:ofi1:fi_sockaddr_in://10.0.0.1:7471",
]
MALFORMED = [
    "rc:",
    "rc:xyz:0:0:0",
    "rc:" + "0" * 32,
    "rc:" + "0" * 32 + ":1:1",
    "rc:" + "0" * 31 + ":0:0:0",
    "rc:" + "0" * 33 + ":0:0:0",
    "rc:" + "0" * 32 + "::0:0",
    "rc:" + "0" * 32 + ":0:0:0:0",
    "rc:" + "0" * 32 + ":0:-1:0",
    "rc:" + "0" * 32 + ":0:0:100000000",  # an rkey of 33 bits
    "rc:" + "0" * 32 + ":10000000000000000:0:0",
    "rc:" + "0" * 32 + ":ffffffffffffffff:2:1",  # beyond the end of memory
    CUOBJECT[:-1],
    CUOBJECT + ":00007f3a5c000000",
    "0" * 87,
    "hello",
]
UNPAIRED = ["01" + "0" * 86, "01" + "0" * 86 + ":7f00:1000"]
WRITES = ("/connected/token", "/connected/token?partNumber=1&uploadId={upload}")


@pytest.fixture(scope="module")
def upload(s3: Any) -> Iterator[str]:
    found = s3.create_multipart_upload(Bucket="connected", Key="token")["UploadId"]
    yield found
    s3.abort_multipart_upload(Bucket="connected", Key="token", UploadId=found)


@pytest.fixture
def untouched(s3: Any, upload: str) -> Iterator[str]:
    """An object; after the test it is the same, and the upload still has no part."""
    before = s3.put_object(Bucket="connected", Key="token", Body=DATA)["ETag"]
    yield "/connected/token"
    assert s3.head_object(Bucket="connected", Key="token")["ETag"] == before
    listed = s3.list_parts(Bucket="connected", Key="token", UploadId=upload)
    assert "Parts" not in listed


def asked(desk: Desk, method: str, path: str, token: str, **options: Any) -> Any:
    return desk.ask(method, path, UNSIGNED_PAYLOAD | {"x-amz-rdma-token": token}, **options)


def test_get__token_of_another_transport__comes_in_the_body(desk: Desk, untouched: str) -> None:
    for token in DECLINED:
        answer = asked(desk, "GET", untouched, token)
        assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (200, "501"), token
        assert answer.body == DATA
        headers = UNSIGNED_PAYLOAD | {"x-amz-rdma-token": token, "range": "bytes=4-9"}
        ranged = desk.ask("GET", untouched, headers)
        assert (ranged.status, ranged.headers["x-amz-rdma-reply"]) == (206, "501"), token
        assert ranged.headers["content-range"] == f"bytes 4-9/{len(DATA)}"
        assert ranged.body == DATA[4:10]


@pytest.mark.parametrize("path", WRITES)
def test_put__token_of_another_transport__is_declined_and_nothing_is_stored(
    desk: Desk, untouched: str, upload: str, path: str
) -> None:
    for token in DECLINED:
        answer = asked(desk, "PUT", path.format(upload=upload), token)
        assert (answer.status, answer.code) == (200, "RDMANotSupported"), token
        assert answer.headers["x-amz-rdma-reply"] == "501"
        assert answer.headers["content-type"] == "application/xml"
        assert not {"etag", "x-amz-rdma-bytes-transferred"} & answer.headers.keys()


def test_libfabric_header_alone__is_declined(desk: Desk, untouched: str) -> None:
    headers = UNSIGNED_PAYLOAD | {"x-rdma-info": "v=1"}
    got, put = (desk.ask(method, untouched, headers) for method in ("GET", "PUT"))
    assert (got.status, got.headers["x-amz-rdma-reply"], got.body) == (200, "501", DATA)
    assert (put.status, put.headers["x-amz-rdma-reply"]) == (200, "501")
    assert "etag" not in put.headers


def test_token__malformed__is_refused_without_a_reply_header(
    desk: Desk, untouched: str, upload: str
) -> None:
    asks = [("GET", untouched), *(("PUT", path.format(upload=upload)) for path in WRITES)]
    for token in MALFORMED:
        for method, path in asks:
            answer = asked(desk, method, path, token)
            assert (answer.status, answer.code) == (400, "InvalidRDMAToken"), token
            assert "x-amz-rdma-reply" not in answer.headers
            assert token not in answer.message


def test_token__bare__is_unsupported(desk: Desk, untouched: str) -> None:
    for method, token in product(("GET", "PUT"), UNPAIRED):
        answer = asked(desk, method, untouched, token)
        assert answer.status == 501
        assert answer.headers["x-amz-rdma-protocol-status"] == "unsupported"
        assert "x-amz-rdma-reply" not in answer.headers


def test_token__not_signed__is_refused(desk: Desk, untouched: str) -> None:
    for method in ("GET", "PUT"):
        answer = asked(desk, method, untouched, UNKNOWN, unsigned=("x-amz-rdma-token",))
        assert (answer.status, answer.code) == (400, "InvalidArgument")
        anonymous = asked(desk, method, untouched, UNKNOWN, sign=False)
        assert anonymous.status == 403


def test_token__twice__is_refused(raw: RawClient, untouched: str) -> None:
    head = raw.signed_head("GET", untouched, headers=UNSIGNED_PAYLOAD | {"x-amz-rdma-token": "a"})
    raw.send(head.replace(b"\r\n\r\n", b"\r\nx-amz-rdma-token: a\r\n\r\n"))
    assert raw.reply().status in {400, 403}


def test_put__with_a_body_too__is_refused(raw: RawClient, peer: RcClient, untouched: str) -> None:
    token = {"x-amz-rdma-token": f"rc:{peer.connection}:0:0:0"}
    length = raw.ask("PUT", untouched, b"body", UNSIGNED_PAYLOAD | token)
    assert (length.status, length.code) == (400, "InvalidRequest")
    hashed = raw.ask("PUT", untouched, b"", token | {"x-amz-content-sha256": "ab" * 32})
    assert (hashed.status, hashed.code) == (400, "InvalidRequest")


async def test_put__content_md5__speaks_of_an_http_body_and_is_refused(
    peer: RcClient, untouched: str
) -> None:
    answer = await peer.put(untouched, b"data", {"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="})
    assert (answer.status, answer.code) == (400, "InvalidRequest")


async def test_put__longer_than_an_object_may_be__is_refused_before_it_moves(
    peer: RcClient, untouched: str, upload: str
) -> None:
    token = f"rc:{peer.connection}:0:{5 * 2**30 + 1:x}:0"
    for path in WRITES:
        answer = await peer.ask("PUT", path.format(upload=upload), token)
        assert (answer.status, answer.code) == (400, "EntityTooLarge")
        assert "x-amz-rdma-reply" not in answer.headers


@pytest.mark.parametrize("kind", ["connection", "malformed"])
async def test_other_operations__token_is_ignored(
    peer: RcClient, s3: Any, untouched: str, kind: str
) -> None:
    token = f"rc:{peer.connection}:0:5:0" if kind == "connection" else "hello"
    s3.put_object(Bucket="connected", Key="doomed", Body=DATA)
    copied = {"x-amz-copy-source": "connected/token", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    head = await peer.ask("HEAD", untouched, token)
    listed = await peer.ask("GET", "/connected?list-type=2", token)
    copy = await peer.ask("PUT", "/connected/copy", token, copied)
    begun = await peer.ask("POST", "/connected/begun?uploads", token)
    gone = await peer.ask("DELETE", "/connected/doomed", token)
    assert [one.status for one in (head, listed, copy, begun, gone)] == [200, 200, 200, 200, 204]
    assert head.headers["content-length"] == str(len(DATA))
    assert b"<Key>token</Key>" in listed.body
    assert s3.get_object(Bucket="connected", Key="copy")["Body"].read() == DATA
    for answer in (head, listed, copy, begun, gone):
        assert "x-amz-rdma-reply" not in answer.headers


async def test_presigned__token_in_the_signed_headers__is_heeded(
    peer: RcClient, raw: RawClient, untouched: str
) -> None:
    target = bytearray(len(DATA))
    async with peer.lent(target, remote_write=True) as memory:
        headers = {"x-amz-rdma-token": peer.token(memory)}
        signed = raw.presigned_target("GET", untouched, headers=headers)
        raw.send(raw.head("GET", signed, headers))
        answer = await asyncio.to_thread(raw.reply)
        assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (200, "200")
        raw.send(raw.head("GET", raw.presigned_target("GET", untouched), headers))
        refused = await asyncio.to_thread(raw.reply)
    assert target == DATA
    assert (refused.status, refused.code) == (400, "InvalidArgument")
