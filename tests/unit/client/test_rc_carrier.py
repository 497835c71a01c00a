"""Requests by a connection: one round trip, what is tried again, and what never is a success."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web
from fake_connections import declined_put
from fake_rc_gateway import Rig, Seen, error, md5

from gateway.client import (
    ConnectError,
    S3Error,
    TransferError,
    TransferPath,
    UnsupportedError,
)
from gateway.errors import BusyError

DATA = bytes(range(256)) * 16


@pytest.fixture
def connected(rig: Rig) -> Rig:
    rig.server.connections.on = True
    rig.server.objects["/b/k"] = DATA
    return rig


async def test_transfers__by_a_connection__are_one_request_each(connected: Rig) -> None:
    rig = connected
    async with rig.client() as client:
        put = await client.put_from("b", "new", DATA)
        got = await client.get_into("b", "k", buffer := bytearray(4096), length=4096)
    assert rig.server.objects["/b/new"] == DATA == buffer
    assert (put.path, got.path, got.carrier) == (TransferPath.RDMA, TransferPath.RDMA, "verbs")
    assert put.etag == got.etag == md5(DATA)
    assert [seen.method for seen in rig.server.seen] == ["PUT", "GET"]
    assert len(rig.fabric.links) == rig.server.connections.disconnects == 1


async def test_connection__forgotten_by_the_gateway__is_made_again_once(connected: Rig) -> None:
    async with connected.client() as client:
        await client.put_from("b", "k", DATA)
        connected.server.connections.forget()
        again = await client.get_into("b", "k", buffer := bytearray(4096))
    assert (buffer, again.path) == (DATA, TransferPath.RDMA)
    assert len(connected.fabric.links) == 2


@pytest.mark.parametrize("verb", ["get", "put"])
async def test_declined__twice__goes_by_http_and_says_so(connected: Rig, verb: str) -> None:
    connected.server.connections.memory = lambda *_args, **_more: None  # type: ignore[method-assign]
    async with connected.client() as client:
        method = client.get_into if verb == "get" else client.put_from
        done = await method("b", "k", buffer := bytearray(DATA))
    assert (done.path, buffer) == (TransferPath.HTTP, DATA)
    assert "answered 501" in str(done.reason)
    assert connected.server.objects == {"/b/k": DATA}
    assert len(connected.fabric.links) == 2


async def test_declined__where_rdma_is_required__fails_and_stores_nothing(connected: Rig) -> None:
    connected.server.hooks.append(
        lambda seen: declined_put() if "x-amz-rdma-token" in seen.headers else None
    )
    async with connected.client(rdma="require") as client:
        with pytest.raises(UnsupportedError, match="answered 501"):
            await client.put_from("b", "new", DATA)
    assert "/b/new" not in connected.server.objects


def _with(name: str, value: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda headers: {**headers, name: value}


@pytest.mark.parametrize("text", ["4095", "4097", "", "x"])
@pytest.mark.parametrize("verb", ["get", "put"])
async def test_bytes_transferred__another_number__is_no_success(
    connected: Rig, verb: str, text: str
) -> None:
    connected.server.connections.reply_headers = _with("x-amz-rdma-bytes-transferred", text)
    async with connected.client(rdma="require") as client:
        method = client.get_into if verb == "get" else client.put_from
        with pytest.raises(UnsupportedError, match=f"failed twice.*{text} of 4096"):
            await method("b", "k", bytearray(DATA), **({"length": 4096} if verb == "get" else {}))
    assert len(connected.fabric.links) == 2
    assert [link.events for link in connected.fabric.links] == [["closed with 1"]] * 2


async def test_put__the_gateway_could_not_read__is_repeated_on_another_link(connected: Rig) -> None:
    broken = iter([True])
    connected.server.hooks.append(
        lambda _seen: error(500, "RDMATransferFailed", "lost") if next(broken, False) else None
    )
    async with connected.client() as client:
        done = await client.put_from("b", "new", DATA)
    assert (done.path, done.reason) == (TransferPath.RDMA, None)
    assert connected.server.objects["/b/new"] == DATA
    assert len(connected.fabric.links) == 2


async def test_put__fails_twice__goes_by_http_and_says_so(connected: Rig) -> None:
    connected.server.hooks.append(
        lambda seen: (
            error(500, "RDMATransferFailed", "lost") if "x-amz-rdma-token" in seen.headers else None
        )
    )
    async with connected.client() as client:
        done = await client.put_from("b", "new", DATA)
    assert done.path is TransferPath.HTTP
    assert "RDMA failed twice: RDMATransferFailed" in str(done.reason)
    assert connected.server.objects["/b/new"] == DATA


@pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (404, "NoSuchBucket")])
async def test_answer__s3s_own_error__is_raised_and_the_link_stays(
    connected: Rig, status: int, code: str
) -> None:
    refused = iter([True])
    connected.server.hooks.append(
        lambda _seen: error(status, code, "no") if next(refused, False) else None
    )
    async with connected.client() as client:
        with pytest.raises(S3Error, match=code):
            await client.put_from("b", "k", DATA)
        await client.put_from("b", "k", DATA)
    assert len(connected.fabric.links) == 1


async def test_busy__then_free__is_tried_again_on_the_same_link(connected: Rig) -> None:
    busy = iter([True, True])
    connected.server.hooks.append(
        lambda _seen: error(503, "SlowDown", "full") if next(busy, False) else None
    )
    async with connected.client(rdma="require") as client:
        done = await client.put_from("b", "new", DATA)
    assert done.path is TransferPath.RDMA
    assert (len(connected.fabric.links), len(connected.server.seen)) == (1, 3)
    assert len(connected.fabric.registrations) == 1, "a pause is no reason to register again"


async def test_no_answer__the_link_is_closed_before_the_memory_is_free(connected: Rig) -> None:
    def hang_up(seen: Seen) -> web.Response:
        raise ConnectionResetError

    connected.server.hooks.append(hang_up)
    async with connected.client(rdma="require") as client:
        with pytest.raises(UnsupportedError, match="failed twice"):
            await client.put_from("b", "k", DATA)
    assert [link.events for link in connected.fabric.links] == [["closed with 1"]] * 2


async def test_get__cancelled_in_the_middle__has_closed_the_link_before_it_ends(
    connected: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = asyncio.Event()

    async def hang(_seen: Seen) -> web.Response:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with connected.client() as client:
        await client.put_from("b", "k", DATA)
        monkeypatch.setattr(connected.server, "answer", hang)
        task = asyncio.create_task(client.get_into("b", "k", bytearray(4096), length=4096))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert connected.fabric.links[0].events == ["closed with 1"]
        assert not connected.fabric.links[0].usable


async def test_memory__not_taken__goes_by_http_and_names_the_remedy(connected: Rig) -> None:
    connected.fabric.attach_error = BusyError("raise memlock")
    async with connected.client() as client:
        done = await client.put_from("b", "k", DATA)
    assert done.path is TransferPath.HTTP
    assert "raise memlock" in str(done.reason)


async def test_gateway__gone__is_a_connect_error(connected: Rig) -> None:
    connected.url = "http://127.0.0.1:1"
    async with connected.client() as client:
        with pytest.raises(ConnectError, match="127"):
            await client.put_from("b", "k", DATA)


@pytest.mark.parametrize("spare", [0, 1, 4096])
async def test_get__whole_object__is_one_request_and_no_head(connected: Rig, spare: int) -> None:
    told: list[tuple[int, int]] = []
    buffer = bytearray(4096 + spare)
    async with connected.client() as client:
        got = await client.get_into("b", "k", buffer, progress=lambda *row: told.append(row))
    assert buffer == DATA + bytes(spare)
    assert (got.bytes, got.etag, got.path) == (4096, md5(DATA), TransferPath.RDMA)
    assert [seen.method for seen in connected.server.seen] == ["GET"]
    assert told == [(0, 4096), (4096, 4096)]


async def test_get__whole_empty_object__is_one_request_too(connected: Rig) -> None:
    connected.server.objects["/b/k"] = b""
    async with connected.client() as client:
        got = await client.get_into("b", "k", bytearray(10))
    assert (got.bytes, got.path) == (0, TransferPath.RDMA)
    assert [seen.method for seen in connected.server.seen] == ["GET"]


async def test_get__whole_object_longer_than_the_buffer__says_so_and_the_link_stays(
    connected: Rig,
) -> None:
    buffer = bytearray(4095)
    async with connected.client() as client:
        with pytest.raises(ValueError, match="4095 bytes and 4096 are to be fetched"):
            await client.get_into("b", "k", buffer)
        await client.get_into("b", "k", bytearray(4096))
    assert buffer == bytes(4095)
    assert len(connected.fabric.links) == 1
    assert [seen.method for seen in connected.server.seen] == ["GET", "GET"]


async def test_get__whole_object_with_a_wrong_byte__is_no_success(connected: Rig) -> None:
    connected.server.flip_byte = True
    async with connected.client() as client:
        with pytest.raises(TransferError, match="CRC64NVME"):
            await client.get_into("b", "k", bytearray(4096))


async def test_get__whole_object_missing__is_s3s_own_error(connected: Rig) -> None:
    async with connected.client() as client:
        with pytest.raises(S3Error, match="NoSuchKey"):
            await client.get_into("b", "missing", bytearray(4096))
    assert len(connected.server.seen) == 1


async def test_get__whole_object_longer_than_a_part__asks_for_its_length_first(
    connected: Rig,
) -> None:
    limits = connected.tight(part_bytes=1000)
    async with connected.client(limits=limits) as client:
        await client.get_into("b", "k", buffer := bytearray(4096))
    assert buffer == DATA
    assert [seen.method for seen in connected.server.seen] == ["HEAD"] + ["GET"] * 5


async def test_get__whole_object_declined__goes_by_http_without_a_third_attempt(
    connected: Rig,
) -> None:
    connected.server.connections.memory = lambda *_args, **_more: None  # type: ignore[method-assign]
    async with connected.client() as client:
        got = await client.get_into("b", "k", buffer := bytearray(4096))
    assert (got.path, buffer) == (TransferPath.HTTP, DATA)
    by_token = ["x-amz-rdma-token" in seen.headers for seen in connected.server.seen]
    assert by_token == [True, True, False, False]
