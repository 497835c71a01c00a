"""Connections and their tokens against a real gateway: PROTOCOL sections 3 and 4, rule by rule."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from boto3_client import boto3_client
from gateway_process import GatewayProcess, gateway_process
from raw_rc import (
    CONNECT,
    DISCONNECT,
    UNSIGNED_PAYLOAD,
    Desk,
    RcPeer,
    connect_headers,
    rc_peer,
)

from gateway.config import KIB, MIB, RdmaConfig
from gateway.dataplane.engine import open_fabric

BUCKET = "connected"
SOFT = RdmaConfig(fabric="soft")
SIZES = [0, 1, 4 * KIB, 64 * KIB + 1, MIB, 5 * MIB + 3, 40 * MIB]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    flags = ("--rdma-fabric", "soft", "--rdma-connections", "64")
    with gateway_process(tmp_path_factory.mktemp("connected"), *flags) as process:
        yield process


@pytest.fixture(scope="module")
def s3(gateway: GatewayProcess) -> Iterator[Any]:
    with closing(boto3_client(gateway)) as client:
        client.create_bucket(Bucket=BUCKET)
        yield client


@pytest.fixture
async def peer(gateway: GatewayProcess, s3: Any) -> AsyncIterator[RcPeer]:
    async with rc_peer(gateway, SOFT) as connected:
        yield connected


@pytest.mark.parametrize("size", [size for size in SIZES if size])
async def test_put__any_size__boto3_reads_it_back(peer: RcPeer, s3: Any, size: int) -> None:
    data = secrets.token_bytes(size)
    answer = await peer.put(f"/{BUCKET}/put", data)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["x-amz-rdma-reply"] == "200"
    assert answer.headers["x-amz-rdma-bytes-transferred"] == str(size)
    stored = s3.get_object(Bucket=BUCKET, Key="put", ChecksumMode="ENABLED")
    assert stored["Body"].read() == data
    assert stored["ETag"] == answer.headers["etag"]


@pytest.mark.parametrize("size", [size for size in SIZES if size])
async def test_get__any_size__lands_in_the_buffer(peer: RcPeer, s3: Any, size: int) -> None:
    data, target = secrets.token_bytes(size), bytearray(size)
    put = s3.put_object(Bucket=BUCKET, Key="get", Body=data, Metadata={"colour": "blue"})
    answer = await peer.get(f"/{BUCKET}/get", target)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["x-amz-rdma-reply"] == "200"
    assert answer.headers["x-amz-rdma-bytes-transferred"] == str(size)
    assert answer.headers["etag"] == put["ETag"]
    assert answer.headers["x-amz-meta-colour"] == "blue"
    assert answer.headers["content-length"] == "0"
    assert target == data


async def test_put__size_zero__stores_an_empty_object(peer: RcPeer, s3: Any) -> None:
    answer = await peer.ask("PUT", f"/{BUCKET}/empty", f"rc:{peer.connection}:0:0:0")
    assert answer.status == 200
    assert answer.headers["x-amz-rdma-bytes-transferred"] == "0"
    assert s3.head_object(Bucket=BUCKET, Key="empty")["ContentLength"] == 0


async def test_get__empty_object__answers_zero_bytes(peer: RcPeer, s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="empty", Body=b"")
    answer = await peer.get(f"/{BUCKET}/empty", bytearray(10))
    assert answer.status == 200
    assert answer.headers["x-amz-rdma-reply"] == "200"
    assert answer.headers["x-amz-rdma-bytes-transferred"] == "0"


@pytest.mark.parametrize(
    ("header", "first", "last"),
    [("0-0", 0, 0), ("5-99", 5, 99), ("-7", 999_993, 999_999), ("999990-", 999_990, 999_999)],
)
async def test_get__ranged__status_and_reply_agree(
    peer: RcPeer, s3: Any, header: str, first: int, last: int
) -> None:
    data = secrets.token_bytes(1_000_000)
    s3.put_object(Bucket=BUCKET, Key="ranged", Body=data)
    target = bytearray(last + 1 - first)
    answer = await peer.get(f"/{BUCKET}/ranged", target, {"range": f"bytes={header}"})
    assert answer.status == 206
    assert answer.headers["x-amz-rdma-reply"] == "206"
    assert answer.headers["content-range"] == f"bytes {first}-{last}/1000000"
    assert target == data[first : last + 1]


async def test_get__buffer_too_short__comes_in_the_body_and_touches_nothing(
    peer: RcPeer, s3: Any
) -> None:
    data, target = secrets.token_bytes(100), bytearray(99)
    s3.put_object(Bucket=BUCKET, Key="long", Body=data)
    answer = await peer.get(f"/{BUCKET}/long", target)
    assert answer.status == 200
    assert answer.headers["x-amz-rdma-reply"] == "501"
    assert answer.body == data
    assert target == bytes(99)


async def test_get__failed_write__comes_in_the_body_and_the_connection_ends(
    gateway: GatewayProcess, s3: Any
) -> None:
    data = secrets.token_bytes(1000)
    s3.put_object(Bucket=BUCKET, Key="fallback", Body=data)
    async with rc_peer(gateway, SOFT) as peer:
        token = f"rc:{peer.connection}:1000:3e8:1234"  # an rkey of nobody's
        for _ in range(2):
            answer = await peer.ask("GET", f"/{BUCKET}/fallback", token)
            assert answer.status == 200
            assert answer.headers["x-amz-rdma-reply"] == "501"
            assert answer.body == data


async def test_put__failed_read__is_an_error_and_nothing_is_stored(
    gateway: GatewayProcess, s3: Any
) -> None:
    async with rc_peer(gateway, SOFT) as peer:
        token = f"rc:{peer.connection}:1000:3e8:1234"
        answer = await peer.ask("PUT", f"/{BUCKET}/never", token)
        assert (answer.status, answer.code) == (500, "RDMATransferFailed")
        declined = await peer.ask("PUT", f"/{BUCKET}/never", token)
    assert declined.status == 200
    assert declined.headers["x-amz-rdma-reply"] == "501"
    assert "etag" not in declined.headers
    assert declined.code == "RDMANotSupported"
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="never")
    assert listed["KeyCount"] == 0


async def test_put__checksum_declared__is_verified_on_what_came(peer: RcPeer, s3: Any) -> None:
    right = {"x-amz-checksum-crc32": "y/U6HA=="}  # CRC-32 of "123456789" is cbf43926
    answer = await peer.put(f"/{BUCKET}/checked", b"123456789", right)
    assert (answer.status, answer.code) == (400, "BadDigest")
    right = {"x-amz-checksum-crc32": "y/Q5Jg=="}
    answer = await peer.put(f"/{BUCKET}/checked", b"123456789", right)
    assert answer.status == 200
    assert answer.headers["x-amz-checksum-crc32"] == "y/Q5Jg=="


async def test_put__conditions__are_those_of_http(peer: RcPeer) -> None:
    condition = {"if-none-match": "*"}
    first = await peer.put(f"/{BUCKET}/once", b"first", condition)
    second = await peer.put(f"/{BUCKET}/once", b"second", condition)
    assert (first.status, second.status) == (200, 412)
    assert "x-amz-rdma-reply" not in second.headers
    assert second.code == "PreconditionFailed"


async def test_upload_part__by_connection__is_a_part_like_any(peer: RcPeer, s3: Any) -> None:
    parts = [secrets.token_bytes(5 * MIB), secrets.token_bytes(10)]
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="parts")["UploadId"]
    listed = []
    for number, data in enumerate(parts, 1):
        answer = await peer.put(f"/{BUCKET}/parts?partNumber={number}&uploadId={upload}", data)
        assert answer.status == 200
        listed.append({"PartNumber": number, "ETag": answer.headers["etag"]})
    s3.complete_multipart_upload(
        Bucket=BUCKET, Key="parts", UploadId=upload, MultipartUpload={"Parts": listed}
    )
    target = bytearray(5 * MIB + 10)
    await peer.get(f"/{BUCKET}/parts", target)
    assert target == b"".join(parts)


async def test_get__missing_key__is_s3s_own_error(peer: RcPeer) -> None:
    answer = await peer.get(f"/{BUCKET}/missing", bytearray(1))
    assert (answer.status, answer.code) == (404, "NoSuchKey")
    assert "x-amz-rdma-reply" not in answer.headers


async def test_requests__many_at_once_on_one_connection__each_is_whole(
    peer: RcPeer, s3: Any
) -> None:
    async def there_and_back(number: int) -> None:
        data = secrets.token_bytes(number * 999)
        target = bytearray(len(data))
        assert (await peer.put(f"/{BUCKET}/many/{number}", data)).status == 200
        answer = await peer.get(f"/{BUCKET}/many/{number}", target)
        assert answer.headers["x-amz-rdma-reply"] == "200"
        assert target == data

    await asyncio.gather(*(there_and_back(number) for number in range(1, 65)))


@pytest.mark.parametrize(
    "token",
    ["rc:", "rc:xyz:0:0:0", "rc:" + "0" * 32 + ":ffffffffffffffff:2:1", "rc:" + "0" * 32 + ":1:1"],
)
async def test_token__malformed__is_refused_without_a_reply_header(
    peer: RcPeer, token: str
) -> None:
    for method in ("GET", "PUT"):
        answer = await peer.ask(method, f"/{BUCKET}/any", token)
        assert (answer.status, answer.code) == (400, "InvalidRDMAToken")
        assert "x-amz-rdma-reply" not in answer.headers


async def test_token__not_signed__is_refused(peer: RcPeer) -> None:
    headers = UNSIGNED_PAYLOAD | {"x-amz-rdma-token": f"rc:{peer.connection}:0:0:0"}
    answer = await asyncio.to_thread(
        peer.desk.ask, "PUT", f"/{BUCKET}/any", headers, unsigned=("x-amz-rdma-token",)
    )
    assert answer.status == 400


async def test_put__content_md5__speaks_of_an_http_body_and_is_refused(peer: RcPeer) -> None:
    answer = await peer.put(f"/{BUCKET}/any", b"data", {"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="})
    assert (answer.status, answer.code) == (400, "InvalidRequest")


async def test_head__token__is_ignored(peer: RcPeer, s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="head", Body=b"12345")
    answer = await peer.ask("HEAD", f"/{BUCKET}/head", f"rc:{peer.connection}:0:5:0")
    assert answer.status == 200
    assert answer.headers["content-length"] == "5"
    assert "x-amz-rdma-reply" not in answer.headers


async def test_connect__unsigned__is_refused(gateway: GatewayProcess) -> None:
    fabric = open_fabric(SOFT, arena=False)
    headers = connect_headers(fabric.dial().local)
    desk = Desk(gateway.endpoint, (gateway.access_key, gateway.secret_key))
    answer = await asyncio.to_thread(desk.ask, "POST", CONNECT, headers, sign=False)
    assert answer.status == 403
    await fabric.close()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"x-amz-rdma-psn": "0"}, "InvalidArgument"),
        ({"x-amz-rdma-psn": "1000000"}, "InvalidArgument"),
        ({"x-amz-rdma-token": "01"}, "InvalidRDMAToken"),
        ({"x-amz-rdma-token": "00" * 44}, "RDMANotSupported"),
    ],
)
async def test_connect__malformed__is_refused(
    gateway: GatewayProcess, change: dict[str, str], code: str
) -> None:
    fabric = open_fabric(SOFT, arena=False)
    headers = connect_headers(fabric.dial().local) | change
    desk = Desk(gateway.endpoint, (gateway.access_key, gateway.secret_key))
    answer = await asyncio.to_thread(desk.ask, "POST", CONNECT, headers)
    assert answer.code == code
    await fabric.close()


async def test_disconnect__anything__is_204(gateway: GatewayProcess) -> None:
    desk = Desk(gateway.endpoint, (gateway.access_key, gateway.secret_key))
    for session in ("0" * 32, "nonsense", ""):
        headers = {"x-amz-rdma-session": session}
        answer = await asyncio.to_thread(desk.ask, "POST", DISCONNECT, headers)
        assert answer.status == 204


async def test_connect__more_than_there_are__is_busy(tmp_path: Path) -> None:
    flags = ("--rdma-fabric", "soft", "--rdma-connections", "2")
    with gateway_process(tmp_path, *flags) as process:
        async with rc_peer(process, SOFT), rc_peer(process, SOFT):
            fabric = open_fabric(SOFT, arena=False)
            desk = Desk(process.endpoint, (process.access_key, process.secret_key))
            headers = connect_headers(fabric.dial().local)
            answer = await asyncio.to_thread(desk.ask, "POST", CONNECT, headers)
            assert (answer.status, answer.code) == (503, "SlowDown")
            await fabric.close()


async def test_rdma_off__connect__is_unsupported(tmp_path: Path) -> None:
    with gateway_process(tmp_path, "--rdma-fabric", "off") as process:
        desk = Desk(process.endpoint, (process.access_key, process.secret_key))
        headers = {"x-amz-rdma-token": "01" + "00" * 43, "x-amz-rdma-psn": "000001"}
        answer = await asyncio.to_thread(desk.ask, "POST", CONNECT, headers)
        assert answer.status == 501
        assert answer.headers["x-amz-rdma-protocol-status"] == "unsupported"
