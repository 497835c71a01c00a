from __future__ import annotations

import asyncio
import hashlib

import pytest
from bodies import BytesBody, checksum
from s3_desk import Desk, refused

from gateway.auth.principal import Principal
from gateway.errors import GatewayError, InternalError, S3Code
from gateway.s3.context import Context
from gateway.s3.dispatch import perform
from gateway.s3.operations import Operation, PutObject
from gateway.s3.requester import Requester
from gateway.storage.memory import MemoryStorage
from gateway.storage.port import ObjectAttributes
from gateway.wire.checksums import Algorithm


async def test_put__etag__is_the_quoted_md5(desk: Desk) -> None:
    put = await desk.ask("PutObject", BytesBody(b"abc"), Bucket="shop", Key="k")
    assert put["ETag"] == f'"{hashlib.md5(b"abc").hexdigest()}"'


@pytest.mark.parametrize("algorithm", list(Algorithm))
async def test_put__declared_checksum__is_echoed_and_kept(desk: Desk, algorithm: Algorithm) -> None:
    put = await desk.ask("PutObject", BytesBody(b"abc", algorithm), Bucket="shop", Key="k")
    found = await desk.ask("HeadObject", Bucket="shop", Key="k", ChecksumMode="ENABLED")
    for reply in (put, found):
        assert reply[algorithm.element] == checksum(algorithm, b"abc")
        assert reply["ChecksumType"] == "FULL_OBJECT"


async def test_put__no_checksum__gets_crc64nvme(desk: Desk) -> None:
    put = await desk.ask("PutObject", BytesBody(b"abc"), Bucket="shop", Key="k")
    assert put["ChecksumCRC64NVME"] == checksum(Algorithm.CRC64NVME, b"abc")


async def test_put__length_not_announced__is_stored_whole(desk: Desk) -> None:
    await desk.ask("PutObject", BytesBody(b"abc", chunked=True), Bucket="shop", Key="k")
    assert (await desk.ask("GetObject", Bucket="shop", Key="k"))["Body"] == b"abc"


async def test_put__torn_body__leaves_the_old_object_and_no_stage(
    desk: Desk, storage: MemoryStorage
) -> None:
    await desk.ask("PutObject", BytesBody(b"old"), Bucket="shop", Key="k")
    for _ in range(2000):  # more than the storage may have staged at once
        with refused(S3Code.BAD_DIGEST):
            await desk.ask("PutObject", BytesBody(b"new", torn=True), Bucket="shop", Key="k")
    assert (await desk.ask("GetObject", Bucket="shop", Key="k"))["Body"] == b"old"


async def test_put__missing_bucket__fails_before_the_body_is_asked_for(desk: Desk) -> None:
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask("PutObject", BytesBody(b"x", torn=True), Bucket="none", Key="k")


async def test_put__if_none_match_on_an_existing_key__is_412(desk: Desk) -> None:
    await desk.ask("PutObject", Bucket="shop", Key="k", IfNoneMatch="*")
    with refused(S3Code.PRECONDITION_FAILED):
        await desk.ask("PutObject", Bucket="shop", Key="k", IfNoneMatch="*")


async def test_put__if_match__needs_the_current_object(desk: Desk) -> None:
    with refused(S3Code.NO_SUCH_KEY):
        await desk.ask("PutObject", Bucket="shop", Key="k", IfMatch='"abc"')
    put = await desk.ask("PutObject", BytesBody(b"1"), Bucket="shop", Key="k")
    with refused(S3Code.PRECONDITION_FAILED):
        await desk.ask("PutObject", Bucket="shop", Key="k", IfMatch='"abc"')
    assert await desk.ask("PutObject", Bucket="shop", Key="k", IfMatch=put["ETag"])


async def test_put__thirty_two_at_once_with_if_none_match__exactly_one_wins(desk: Desk) -> None:
    async def attempt(number: int) -> S3Code | None:
        try:
            body = BytesBody(b"%d" % number)
            await desk.ask("PutObject", body, Bucket="shop", Key="k", IfNoneMatch="*")
        except GatewayError as error:
            return error.code
        return None

    outcomes = await asyncio.gather(*(attempt(number) for number in range(32)))
    assert outcomes.count(None) == 1
    assert outcomes.count(S3Code.PRECONDITION_FAILED) == 31
    winner = (await desk.ask("GetObject", Bucket="shop", Key="k"))["Body"]
    assert int(winner) == outcomes.index(None)


async def test_perform__no_body_or_no_verb__is_our_bug(desk: Desk, storage: MemoryStorage) -> None:
    context = Context(storage, Requester(Principal("key")), "us-east-1")
    with pytest.raises(InternalError):
        await perform(PutObject("shop", "k", ObjectAttributes()), None, context)
    with pytest.raises(InternalError):
        await perform(Operation(), None, context)
