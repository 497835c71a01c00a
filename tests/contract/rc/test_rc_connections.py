"""Connect and disconnect: what a connection is, whose it is, how many there are, when it ends."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from boto3_client import boto3_client
from gateway_process import GatewayProcess, gateway_process
from raw_hipobj import rc_token
from rc_client import (
    CONNECT,
    DISCONNECT,
    Address,
    Desk,
    RcClient,
    address_in,
    connect_headers,
    disconnect,
)
from rc_fabrics import BOB, RcFabric

GID = bytes.fromhex("00000000000000000000ffff7f090909")
NOBODY = Address(0x1234, 0x00ABCD, GID)  # a queue pair that may be connected to, and never answers
UNKNOWN = "0" * 32
DATA = b"of the owner"


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


@pytest.fixture
def object_path(s3: Any, bucket: str) -> str:
    s3.put_object(Bucket=bucket, Key="owned", Body=DATA)
    return f"/{bucket}/owned"


async def assert_not_there(peer: RcClient, path: str, **options: Any) -> None:
    """Both verbs decline, and leave buffer and object alone, as where no such connection is."""
    target = bytearray(len(DATA))
    async with peer.lent(target, remote_write=True) as memory:
        got = await peer.ask("GET", path, peer.token(memory), **options)
        put = await peer.ask("PUT", path, peer.token(memory), **options)
    assert (got.status, got.headers["x-amz-rdma-reply"], got.body) == (200, "501", DATA)
    assert (put.status, put.headers["x-amz-rdma-reply"]) == (200, "501")
    assert put.code == "RDMANotSupported"
    assert "etag" not in put.headers
    assert target == bytes(len(DATA))


async def assert_works(peer: RcClient, path: str, **options: Any) -> None:
    target = bytearray(len(DATA))
    async with peer.lent(target, remote_write=True) as memory:
        answer = await peer.ask("GET", path, peer.token(memory), **options)
    assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (200, "200")
    assert target == DATA


def test_connect__answer__tells_a_queue_pair_and_no_memory(peer: RcClient) -> None:
    answer = peer.welcome
    assert (answer.status, answer.body) == (200, b"")
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-amz-rdma-session"])
    assert re.fullmatch("200:[0-9a-f]{88}", answer.headers["x-amz-rdma-reply"])
    assert re.fullmatch("[0-9a-f]{6}", answer.headers["x-amz-rdma-psn"])
    token = bytes.fromhex(answer.headers["x-amz-rdma-reply"][4:])
    assert token[21:41] == bytes(20)  # rkey, addr and length
    assert not any(name.startswith("x-amz-rdma-mr") for name in answer.headers)


async def test_connect__again_and_again__has_another_id_and_psn(
    fabric: RcFabric, gateway: GatewayProcess
) -> None:
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(fabric.client(gateway)) for _ in range(5)]
        addresses = [address_in(peer.welcome) for peer in peers]
        assert len({peer.connection for peer in peers}) == 5
        assert len({address.psn for address in addresses}) == 5
        assert len({address.qpn for address in addresses}) == 5
        assert 0 not in {address.psn for address in addresses}


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"x-amz-rdma-psn": "0"}, 400, "InvalidArgument"),
        ({"x-amz-rdma-psn": "1000000"}, 400, "InvalidArgument"),
        ({"x-amz-rdma-psn": "xyz"}, 400, "InvalidArgument"),
        ({"x-amz-rdma-psn": None}, 400, "InvalidArgument"),
        ({"x-amz-rdma-token": None}, 400, "InvalidArgument"),
        ({"x-amz-rdma-token": "01"}, 400, "InvalidRDMAToken"),
        ({"x-amz-rdma-token": "z" * 88}, 400, "InvalidRDMAToken"),
        ({"x-amz-rdma-token": "07" + "00" * 43}, 400, "InvalidRDMAToken"),
        ({"x-amz-rdma-token": "00" * 44}, 501, "RDMANotSupported"),  # loopback: no QPN in it
        ({"x-amz-rdma-token": rc_token(1, GID, transport=0)}, 501, "RDMANotSupported"),  # DC
    ],
)
async def test_connect__malformed__is_refused_and_makes_nothing(
    desk: Desk, s3: Any, change: dict[str, str | None], status: int, code: str
) -> None:
    every = connect_headers(NOBODY) | change
    headers = {name: value for name, value in every.items() if value is not None}
    answer = await asyncio.to_thread(desk.ask, "POST", CONNECT, headers)
    assert (answer.status, answer.code) == (status, code)
    assert "x-amz-rdma-session" not in answer.headers


@pytest.mark.parametrize("name", ["x-amz-rdma-token", "x-amz-rdma-psn"])
def test_connect__header_not_signed__is_refused(desk: Desk, s3: Any, name: str) -> None:
    answer = desk.ask("POST", CONNECT, connect_headers(NOBODY), unsigned=(name,))
    assert (answer.status, answer.code) == (400, "InvalidArgument")


def test_connect__unsigned__is_refused_where_it_is_not_allowed(desk: Desk, s3: Any) -> None:
    answer = desk.ask("POST", CONNECT, connect_headers(NOBODY), sign=False)
    assert (answer.status, answer.code) == (403, "AccessDenied")


@pytest.mark.parametrize("path", [CONNECT, DISCONNECT])
def test_control__another_method__is_not_allowed(desk: Desk, s3: Any, path: str) -> None:
    assert desk.ask("PUT", path, connect_headers(NOBODY)).status == 405


@pytest.mark.parametrize("session", [UNKNOWN, "nonsense", "", None])
async def test_disconnect__of_what_is_not_there__is_204(
    desk: Desk, s3: Any, session: str | None
) -> None:
    headers = {} if session is None else {"x-amz-rdma-session": session}
    answer = await asyncio.to_thread(desk.ask, "POST", DISCONNECT, headers)
    assert (answer.status, answer.body) == (204, b"")


async def test_disconnect__twice__is_204_and_the_connection_is_gone(
    fabric: RcFabric, gateway: GatewayProcess, object_path: str
) -> None:
    async with fabric.client(gateway) as peer:
        await assert_works(peer, object_path)
        for _ in range(2):
            assert (await disconnect(peer.desk, peer.connection)).status == 204
            await assert_not_there(peer, object_path)


async def test_disconnect__by_another_key__is_204_and_changes_nothing(
    peer: RcClient, gateway: GatewayProcess, object_path: str
) -> None:
    assert (await disconnect(Desk.of(gateway, BOB), peer.connection)).status == 204
    await assert_works(peer, object_path)


async def test_connection__unknown__is_declined(peer: RcClient, object_path: str) -> None:
    lost = type(peer).__new__(type(peer))
    vars(lost).update(vars(peer), connection=UNKNOWN)
    await assert_not_there(lost, object_path)


async def test_connection__of_another_key__is_as_if_it_were_not_there(
    peer: RcClient, s3: Any, bucket: str, object_path: str
) -> None:
    """Bob may read and write the object; the connection by which he asks to is not his."""
    allowed = ["s3:GetObject", "s3:PutObject"]
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam:::user/bob"},
        "Action": allowed,
        "Resource": f"arn:aws:s3:::{bucket}/*",
    }
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(statement))
    await assert_not_there(peer, object_path, key=BOB)
    await assert_works(peer, object_path)


@pytest.fixture(scope="module")
def tight(
    fabric: RcFabric, keys: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """Three connections, two of them at most of one key and one of nobody's; they die soon."""
    flags = ("--rdma-connections", "3", "--rdma-connections-per-key", "2")
    flags += ("--rdma-unsigned-connect", "true", "--rdma-max-unsigned-connections", "1")
    flags += ("--rdma-connection-idle-timeout-s", str(fabric.idle_s))
    flags += ("--rdma-transfer-timeout-s", str(max(2, fabric.idle_s)), "--credentials-file")
    with gateway_process(
        tmp_path_factory.mktemp("tight"), *fabric.flags, *flags, str(keys)
    ) as process:
        with closing(boto3_client(process)) as client:
            client.create_bucket(Bucket="tight")
            client.put_object(Bucket="tight", Key="owned", Body=DATA)
            statement = {
                "Effect": "Allow",
                "Principal": "*",
                "Action": ["s3:GetObject", "s3:PutObject"],
                "Resource": "arn:aws:s3:::tight/*",
            }
            client.put_bucket_policy(Bucket="tight", Policy=policy(statement))
        yield process


async def test_connect__over_a_cap__is_busy_and_names_it_until_one_ends(
    fabric: RcFabric, tight: GatewayProcess
) -> None:
    headers = connect_headers(NOBODY)

    def refused(desk: Desk, sign: bool = True) -> str:
        answer = desk.ask("POST", CONNECT, headers, sign=sign)
        assert (answer.status, answer.code) == (503, "SlowDown")
        assert int(answer.headers["retry-after"]) >= 1
        return answer.message

    ours, bobs = Desk.of(tight), Desk.of(tight, BOB)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(fabric.client(tight))
        async with fabric.client(tight):
            assert "rdma.connections_per_key" in await asyncio.to_thread(refused, ours)
            bob = await stack.enter_async_context(fabric.client(tight, BOB))
            assert "rdma.connections)" in await asyncio.to_thread(refused, bobs)
        again = await stack.enter_async_context(fabric.client(tight))
        for peer in (first, bob, again):
            await assert_works(peer, "/tight/owned")


async def test_connect__unsigned__belongs_to_the_first_key_that_uses_it(
    fabric: RcFabric, tight: GatewayProcess
) -> None:
    desk = Desk.of(tight)
    async with fabric.client(tight, sign=False) as peer:
        over = await asyncio.to_thread(
            desk.ask, "POST", CONNECT, connect_headers(NOBODY), sign=False
        )
        assert over.status == 503
        assert "rdma.max_unsigned_connections" in over.message
        await assert_works(peer, "/tight/owned", key=BOB)
        await assert_not_there(peer, "/tight/owned")
        await assert_works(peer, "/tight/owned", key=BOB)
        async with fabric.client(tight, sign=False) as another:
            await assert_works(another, "/tight/owned")
        assert (await disconnect(Desk.of(tight, BOB), peer.connection)).status == 204


async def test_connection__unused_for_the_idle_timeout__ends(
    fabric: RcFabric, tight: GatewayProcess
) -> None:
    async with fabric.client(tight) as peer:
        await assert_works(peer, "/tight/owned")
        await asyncio.sleep(fabric.idle_s + 0.3)  # real time: the gateway is another process
        await assert_not_there(peer, "/tight/owned")


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_connection__whose_queue_pair_is_gone__fails_its_transfer(
    fabric: RcFabric, tight: GatewayProcess, method: str
) -> None:
    """Refused at once, or by a deadline: the answer is the same."""
    async with (
        fabric.client(tight, leave=False) as peer,
        peer.lent(bytearray(DATA), remote_write=True) as memory,
    ):
        token = peer.token(memory)
    answer = await peer.ask(method, "/tight/owned", token)
    if method == "GET":
        assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (200, "501")
        assert answer.body == DATA
    else:
        assert (answer.status, answer.code) == (500, "RDMATransferFailed")
        assert "x-amz-rdma-reply" not in answer.headers
