"""web.pipeline: what a request's trail learns on the path, and the limits of its key."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from xml.etree import ElementTree

import pytest
from bodies import BytesBody
from pipelines import pipeline_over
from request_heads import ACCESS_KEY, presigned_by_botocore, signed_by_botocore, with_header
from storing import new_bucket

from gateway.auth.principal import OWNER_ID
from gateway.config import LimitsConfig
from gateway.storage.memory import MemoryStorage
from gateway.telemetry import RequestRecord, Trail, begin
from gateway.web.limiter import Limiter
from gateway.web.pipeline import Pipeline
from gateway.web.render import HttpReply
from gateway.wire.request import RequestHead

HOST = "http://gateway:9000"
DATA = b"some bytes"
UNSIGNED = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}


@dataclass
class Desk:
    """A pipeline on a clock that stands still, and limits that a test sets."""

    pipeline: Pipeline

    async def respond(self, made: RequestHead, now_s: float) -> tuple[HttpReply, Trail]:
        trail = begin(Trail("ID"))
        pipeline = replace(self.pipeline, clock=lambda: now_s)
        reply = await pipeline.respond(made, lambda _: BytesBody(DATA), "ID")
        if reply.delivery is not None:
            await reply.delivery.reader.close()
        return reply, trail

    async def signed(self, method: str, target: str) -> tuple[HttpReply, Trail]:
        return await self.respond(*signed_by_botocore(method, HOST + target, UNSIGNED))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    storage = MemoryStorage()
    await storage.start()
    await storage.create_bucket(new_bucket("shop"))
    yield Desk(pipeline_over(storage, lambda: 0.0))
    await storage.stop()


def limited(desk: Desk, config: LimitsConfig) -> Desk:
    return Desk(replace(desk.pipeline, limiter=Limiter(config, lambda: 7.0)))


async def test_trail__put_and_get__know_who_what_and_how_long(desk: Desk) -> None:
    _, put = await desk.signed("PUT", "/shop/a/key")
    assert put == Trail(
        request_id="ID",
        operation="PutObject",
        bucket="shop",
        key="a/key",
        bucket_owner=OWNER_ID,
        access_key=ACCESS_KEY,
        requester=OWNER_ID,
        auth_type="AuthHeader",
        signature_version="SigV4",
        object_bytes=len(DATA),
    )
    _, got = await desk.respond(*presigned_by_botocore("GET", f"{HOST}/shop/a/key", {}))
    assert (got.operation, got.auth_type) == ("GetObject", "QueryString")
    assert got.object_bytes == len(DATA)


async def test_trail__refused__has_s3s_code(desk: Desk) -> None:
    _, missing = await desk.signed("GET", "/shop/none")
    assert (missing.error, missing.operation) == ("NoSuchKey", "GetObject")
    made, now_s = signed_by_botocore("GET", f"{HOST}/shop/none", UNSIGNED)
    _, forged = await desk.respond(with_header(made, "x-amz-date", None), now_s)
    assert (forged.error, forged.access_key) == ("AccessDenied", "")


async def test_limit__used_up__is_slow_down_with_the_time_to_come_again(desk: Desk) -> None:
    desk = limited(desk, LimitsConfig(requests_per_s=0.5, burst_s=2))
    assert (await desk.signed("GET", "/shop/none"))[0].status == 404
    reply, trail = await desk.signed("GET", "/shop/none")
    assert reply.status == 503
    assert dict(reply.headers)["retry-after"] == "2"
    assert ElementTree.fromstring(reply.body).findtext("Code") == "SlowDown"
    assert (trail.error, trail.limit) == ("SlowDown", "limits.requests_per_s")


async def test_limit__forged_requests__take_nothing_from_the_key(desk: Desk) -> None:
    desk = limited(desk, LimitsConfig(requests_per_s=0.001, burst_s=1000))
    made, now_s = signed_by_botocore("GET", f"{HOST}/shop/none", UNSIGNED)
    for _ in range(3):
        forged = with_header(made, "x-amz-date", None)
        assert (await desk.respond(forged, now_s))[0].status == 403
    assert (await desk.signed("GET", "/shop/none"))[0].status == 404


async def test_limit__bytes_owed__are_told_in_whole_seconds(desk: Desk) -> None:
    limiter = Limiter(LimitsConfig(bytes_per_s=3), lambda: 7.0)
    desk = Desk(replace(desk.pipeline, limiter=limiter))
    _, trail = await desk.signed("GET", "/shop/none")
    trail.moved_bytes = 100
    limiter.record(RequestRecord(trail, "GET", "/shop/none", 404, 0, 0, 0.1, ""))
    reply, trail = await desk.signed("GET", "/shop/none")
    assert (reply.status, trail.limit) == (503, "limits.bytes_per_s")
    assert dict(reply.headers)["retry-after"] == str(math.ceil(97 / 3))
