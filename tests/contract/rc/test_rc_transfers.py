"""What moves by a connection: any size, whole, into no other byte; and what is said of it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from gateway_process import GatewayProcess
from rc_client import Desk, RcClient
from rc_fabrics import EMULATED, RcFabric

KIB, MIB = 1024, 1024 * 1024
WINDOW = 32 * MIB  # of one call into the gateway's core
SIZES = [1, 4 * KIB, 64 * KIB + 1, MIB, 5 * MIB + 3]
SIZES += [] if EMULATED else [WINDOW, WINDOW + MIB + 1]
AT_ONCE = 12 if EMULATED else 64
UNTOUCHED = 0xEE


def content(length: int, seed: int = 0) -> bytes:
    return random.Random(f"{length}/{seed}").randbytes(length)


@pytest.mark.parametrize("size", SIZES)
async def test_put__any_size__boto3_reads_it_back(
    peer: RcClient, s3: Any, bucket: str, size: int
) -> None:
    data = content(size)
    answer = await peer.put(f"/{bucket}/put", data)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == "0"
    assert answer.headers["x-amz-rdma-reply"] == "200"
    assert answer.headers["x-amz-rdma-bytes-transferred"] == str(size)
    stored = s3.get_object(Bucket=bucket, Key="put", ChecksumMode="ENABLED")
    assert stored["Body"].read() == data
    assert stored["ETag"] == answer.headers["etag"]


@pytest.mark.parametrize("size", SIZES)
async def test_get__any_size__lands_in_the_buffer_and_nowhere_else(
    peer: RcClient, s3: Any, bucket: str, size: int
) -> None:
    data, spare = content(size), 100
    target = bytearray([UNTOUCHED]) * (spare + size + spare)
    put = s3.put_object(Bucket=bucket, Key="get", Body=data, Metadata={"colour": "blue"})
    async with peer.lent(target, remote_write=True) as memory:
        inside = f"rc:{peer.connection}:{memory.addr + spare:x}:{size:x}:{memory.rkey:x}"
        answer = await peer.ask("GET", f"/{bucket}/get", inside)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == "0"
    assert answer.headers["x-amz-rdma-reply"] == "200"
    assert answer.headers["x-amz-rdma-bytes-transferred"] == str(size)
    assert answer.headers["etag"] == put["ETag"]
    assert answer.headers["x-amz-meta-colour"] == "blue"
    around = bytes([UNTOUCHED]) * spare
    assert target == around + data + around


async def test_get__buffer_longer_than_the_object__its_end_is_left_alone(
    peer: RcClient, s3: Any, bucket: str
) -> None:
    data, target = content(1000), bytearray([UNTOUCHED]) * 1500
    s3.put_object(Bucket=bucket, Key="shorter", Body=data)
    answer = await peer.get(f"/{bucket}/shorter", target)
    assert answer.headers["x-amz-rdma-bytes-transferred"] == "1000"
    assert target == data + bytes([UNTOUCHED]) * 500


@pytest.mark.parametrize("ranged", [False, True])
async def test_get__buffer_too_short__comes_in_the_body_and_touches_nothing(
    peer: RcClient, s3: Any, bucket: str, ranged: bool
) -> None:
    data, target = content(200), bytearray([UNTOUCHED]) * 99
    s3.put_object(Bucket=bucket, Key="long", Body=data)
    headers = {"range": "bytes=100-199"} if ranged else {}
    answer = await peer.get(f"/{bucket}/long", target, headers)
    assert answer.status == (206 if ranged else 200)
    assert answer.headers["x-amz-rdma-reply"] == "501"
    assert "x-amz-rdma-bytes-transferred" not in answer.headers
    assert answer.body == (data[100:] if ranged else data)
    assert target == bytes([UNTOUCHED]) * 99


async def test_get__range_fits_where_the_object_does_not__moves_by_rdma(
    peer: RcClient, s3: Any, bucket: str
) -> None:
    data, target = content(10_000), bytearray(10)
    s3.put_object(Bucket=bucket, Key="large", Body=data)
    answer = await peer.get(f"/{bucket}/large", target, {"range": "bytes=7-16"})
    assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (206, "206")
    assert answer.headers["content-range"] == "bytes 7-16/10000"
    assert target == data[7:17]


async def test_put__size_zero__stores_an_empty_object(peer: RcClient, s3: Any, bucket: str) -> None:
    answer = await peer.ask("PUT", f"/{bucket}/empty", f"rc:{peer.connection}:0:0:0")
    assert answer.status == 200
    assert answer.headers["x-amz-rdma-reply"] == "200"
    assert answer.headers["x-amz-rdma-bytes-transferred"] == "0"
    assert s3.head_object(Bucket=bucket, Key="empty")["ContentLength"] == 0


async def test_get__empty_object__answers_zero_bytes(peer: RcClient, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="nothing", Body=b"")
    target = bytearray([UNTOUCHED]) * 10
    answer = await peer.get(f"/{bucket}/nothing", target)
    assert answer.status == 200
    assert answer.headers["x-amz-rdma-reply"] == "200"
    assert answer.headers["x-amz-rdma-bytes-transferred"] == "0"
    assert target == bytes([UNTOUCHED]) * 10


@pytest.mark.parametrize("size", [1, 100_000, 3 * MIB if EMULATED else WINDOW + 5])
async def test_get__with_a_cookie__the_last_write_carries_it(
    peer: RcClient, s3: Any, bucket: str, size: int
) -> None:
    """More windows than one, too: were the immediate sent twice, the second would find no receive.

    That receive is posted only for the next cookie, which it would spoil.
    """
    data = content(size)
    s3.put_object(Bucket=bucket, Key="cookie", Body=data)
    for cookie in (1, 0xC0FFEE01):
        target = bytearray(size)
        peer.post_receive()
        headers = {"x-amz-rdma-cookie": f"{cookie:08x}"}
        answer = await peer.get(f"/{bucket}/cookie", target, headers)
        await peer.received(cookie)
        assert answer.headers["x-amz-rdma-reply"] == "200"
        assert target == data


@pytest.mark.parametrize("cookie", ["", "0", "00000000", "1", "xyzxyzxy", "123456789"])
async def test_get__malformed_cookie__is_refused(
    peer: RcClient, s3: Any, bucket: str, cookie: str
) -> None:
    s3.put_object(Bucket=bucket, Key="cookie", Body=b"1")
    target = bytearray([UNTOUCHED])
    answer = await peer.get(f"/{bucket}/cookie", target, {"x-amz-rdma-cookie": cookie})
    assert (answer.status, answer.code) == (400, "InvalidArgument")
    assert "x-amz-rdma-reply" not in answer.headers
    assert target[0] == UNTOUCHED


async def test_get__cookie_not_signed__is_refused(peer: RcClient, bucket: str) -> None:
    token = f"rc:{peer.connection}:0:0:0"
    headers, unsigned = {"x-amz-rdma-cookie": "00000001"}, ("x-amz-rdma-cookie",)
    answer = await peer.ask("GET", f"/{bucket}/any", token, headers, unsigned=unsigned)
    assert (answer.status, answer.code) == (400, "InvalidArgument")


async def test_requests__many_at_once_on_one_connection__each_is_whole(
    peer: RcClient, s3: Any, bucket: str
) -> None:
    async def there_and_back(number: int) -> None:
        data = content(number * 999, number)
        target = bytearray(len(data))
        assert (await peer.put(f"/{bucket}/many/{number}", data)).status == 200
        answer = await peer.get(f"/{bucket}/many/{number}", target)
        assert answer.headers["x-amz-rdma-reply"] == "200"
        assert target == data

    await asyncio.gather(*(there_and_back(number) for number in range(1, AT_ONCE + 1)))


async def test_get__failed_write__comes_in_the_body_and_the_connection_ends(
    fabric: RcFabric, gateway: GatewayProcess, s3: Any, bucket: str
) -> None:
    data = content(1000)
    s3.put_object(Bucket=bucket, Key="fallback", Body=data)
    async with fabric.client(gateway) as peer:
        target = bytearray([UNTOUCHED]) * 1000
        async with peer.lent(target, remote_write=True) as memory:
            wrong = f"rc:{peer.connection}:{memory.addr:x}:3e8:{memory.rkey ^ 1:x}"
            for token in (wrong, peer.token(memory)):
                answer = await peer.ask("GET", f"/{bucket}/fallback", token)
                assert answer.status == 200
                assert answer.headers["x-amz-rdma-reply"] == "501"
                assert answer.body == data
        assert target == bytes([UNTOUCHED]) * 1000


async def test_get__memory_lent_for_reading__is_never_written(
    peer: RcClient, s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="fallback", Body=b"new")
    source = bytearray(b"old")
    async with peer.lent(source, remote_write=False) as memory:
        answer = await peer.ask("GET", f"/{bucket}/fallback", peer.token(memory))
    assert (answer.headers["x-amz-rdma-reply"], answer.body) == ("501", b"new")
    assert source == b"old"


async def test_put__failed_read__is_an_error_and_leaves_the_old_object(
    fabric: RcFabric, gateway: GatewayProcess, s3: Any, bucket: str
) -> None:
    s3.put_object(Bucket=bucket, Key="kept", Body=b"old")
    async with fabric.client(gateway) as peer, peer.lent(b"newer", remote_write=False) as memory:
        wrong = f"rc:{peer.connection}:{memory.addr:x}:5:{memory.rkey ^ 1:x}"
        failed = await peer.ask("PUT", f"/{bucket}/kept", wrong)
        declined = await peer.ask("PUT", f"/{bucket}/kept", peer.token(memory))
    assert (failed.status, failed.code) == (500, "RDMATransferFailed")
    assert (declined.status, declined.code) == (200, "RDMANotSupported")
    assert declined.headers["x-amz-rdma-reply"] == "501"
    for answer in (failed, declined):
        assert "etag" not in answer.headers
    assert s3.get_object(Bucket=bucket, Key="kept")["Body"].read() == b"old"


async def test_put__longer_than_its_memory__is_an_error_and_stores_nothing(
    fabric: RcFabric, gateway: GatewayProcess, desk: Desk, bucket: str
) -> None:
    async with fabric.client(gateway) as peer, peer.lent(bytes(5000), remote_write=False) as memory:
        answer = await peer.ask("PUT", f"/{bucket}/beyond", peer.token(memory, 5001))
    assert (answer.status, answer.code) == (500, "RDMATransferFailed")
    assert desk.ask("HEAD", f"/{bucket}/beyond").status == 404
