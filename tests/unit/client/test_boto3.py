"""The hook where things go wrong: botocore's own request is then sent, whole, and it counts."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from aiohttp import web
from botocore import UNSIGNED
from botocore.config import Config
from fake_rc_gateway import Rig, Seen, error

from gateway.client import boto3 as hook
from gateway.client.boto3 import Acceleration, Landed, accelerate
from gateway.client.fabric import FabricDoor
from gateway.config.client import ClientLimits

DATA = bytes(range(256)) * 16
FAST = ClientLimits(backoff_s=0.0, max_backoff_s=0.0)


@dataclass
class Hooked:
    rig: Rig
    limits: ClientLimits = FAST
    min_bytes: int = 1024

    @contextmanager
    def client(self, **settings: Any) -> Iterator[tuple[Any, Acceleration]]:
        keys = {"aws_access_key_id": "AKID", "aws_secret_access_key": "verysecret"}
        settings = {
            "s3": {"addressing_style": "path"},
            "retries": {"max_attempts": 0},
            "request_checksum_calculation": "when_required",
        } | settings
        s3 = boto3.client(
            "s3",
            endpoint_url=self.rig.url,
            region_name="eu-north-1",
            config=Config(**settings),
            **keys,
        )
        acceleration = accelerate(s3, min_bytes=self.min_bytes, limits=self.limits)
        yield s3, acceleration
        acceleration.close()
        s3.close()


@pytest.fixture
def hooked(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Hooked:
    rig.server.connections.on = True
    rig.server.objects["/b/k"] = DATA
    monkeypatch.setattr(
        hook, "FabricDoor", lambda name: FabricDoor(name, opener=lambda _config: rig.fabric)
    )
    return Hooked(rig)


Program = Callable[[Any], object]


async def run(hooked: Hooked, program: Program, **settings: Any) -> tuple[object, Acceleration]:
    """`program` with boto3, in a thread; the fake gateway answers in this one."""

    def work() -> tuple[object, Acceleration]:
        with hooked.client(**settings) as (s3, acceleration):
            return program(s3), acceleration

    return await asyncio.to_thread(work)


def get(s3: Any) -> object:
    return s3.get_object(Bucket="b", Key="k", Range="bytes=0-4095")["Body"].read()


def with_token(seen: Seen) -> bool:
    return "x-amz-rdma-token" in seen.headers


async def test_get__by_the_hook__is_one_signed_request(hooked: Hooked) -> None:
    body, acceleration = await run(hooked, get)
    assert body == DATA
    (seen,) = hooked.rig.server.seen
    assert {"range", "x-amz-rdma-token"} <= seen.signed
    assert (acceleration.transfers, acceleration.bytes, acceleration.reason) == (1, 4096, None)


@pytest.mark.parametrize("attempts", [1, 2])
async def test_get__rdma_fails__is_tried_again_and_then_is_botocores(
    hooked: Hooked, attempts: int
) -> None:
    left = iter(range(attempts))
    hooked.rig.server.hooks.append(
        lambda seen: (
            error(500, "RDMATransferFailed", "lost")
            if with_token(seen) and next(left, None) is not None
            else None
        )
    )
    body, acceleration = await run(hooked, get)
    assert body == DATA
    assert acceleration.transfers == (1 if attempts == 1 else 0)
    assert ("failed twice" in str(acceleration.reason)) == (attempts == 2)


async def test_put__of_a_file_that_fails_by_rdma__is_sent_from_its_beginning(
    hooked: Hooked,
) -> None:
    stored: list[bytes] = []

    def note(seen: Seen) -> web.Response:
        if with_token(seen):
            return error(500, "RDMATransferFailed", "lost")
        stored.append(seen.body)
        return web.Response(headers={"ETag": '"1"'})

    hooked.rig.server.hooks.append(note)
    await run(hooked, lambda s3: s3.put_object(Bucket="b", Key="new", Body=io.BytesIO(DATA)))
    assert stored == [DATA]


@pytest.mark.parametrize("limit", [{"accelerated_max_bytes": 4095}, {"accelerated_origins": 0}])
async def test_limits__beyond_them__is_botocores(
    hooked: Hooked, rig: Rig, limit: dict[str, int]
) -> None:
    hooked.limits = rig.tight(**limit)
    body, acceleration = await run(hooked, get)
    assert (body, acceleration.transfers) == (DATA, 0)


async def test_request__not_signed__is_botocores(hooked: Hooked) -> None:
    body, acceleration = await run(hooked, get, signature_version=UNSIGNED)
    assert (body, acceleration.transfers) == (DATA, 0)


async def test_put__with_content_md5__is_botocores(hooked: Hooked) -> None:
    hooked.rig.server.hooks.append(
        lambda seen: web.Response(headers={"ETag": '"1"'}) if seen.body else None
    )
    md5 = "d9hjS5mkGw2SS3YRBnZn0A=="
    _, acceleration = await run(
        hooked, lambda s3: s3.put_object(Bucket="b", Key="k", Body=DATA, ContentMD5=md5)
    )
    assert (acceleration.transfers, acceleration.reason) == (0, None)


async def test_close__twice__leaves_a_client_that_works(hooked: Hooked) -> None:
    def program(s3: Any) -> object:
        second = accelerate(s3, min_bytes=1024)
        second.close()
        second.close()
        return get(s3)

    assert (await run(hooked, program))[0] == DATA


def test_landed__read_in_pieces__ends() -> None:
    landed = Landed(b"0123456789")
    assert (landed.read(3), landed.readinto(into := bytearray(4)), into) == (b"012", 4, b"3456")
    assert list(landed.stream(2)) == [b"78", b"9"]
    assert (landed.read(), landed.read(None), landed.readable()) == (b"", b"", True)


async def test_get__range_beyond_the_end__is_what_there_is(hooked: Hooked) -> None:
    def program(s3: Any) -> object:
        answer = s3.get_object(Bucket="b", Key="k", Range="bytes=96-5000")
        return answer["ContentLength"], answer["Body"].read()

    (length, body), acceleration = await run(hooked, program)  # type: ignore[misc]
    assert (length, body, acceleration.transfers) == (4000, DATA[96:], 1)


def test_landed__read_whole__is_the_same_object() -> None:
    data = bytes(range(200))
    assert Landed(data).read() is data
