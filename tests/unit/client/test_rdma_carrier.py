"""One session at a time: what is sent, what is refused, and that memory always comes back."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from aiohttp import web
from fake_rc_gateway import GID, Rig, Seen, error, lost, md5

from gateway.client import S3Error, TransferError, TransferPath, UnsupportedError
from gateway.dataplane.failures import CompletionError
from gateway.dataplane.port import CompletionClass
from gateway.errors import BusyError

DATA = bytes(range(256)) * 16


async def test_put__by_rdma__stores_the_bytes_and_sends_no_body(rig: Rig) -> None:
    async with rig.client() as client:
        done = await client.put_from("b", "k", DATA, metadata={"Color": "blue"})
    assert rig.server.objects == {"/b/k": DATA}
    assert (done.bytes, done.path, done.reason) == (4096, TransferPath.RDMA, None)
    assert (done.device, done.carrier) == ("fake0", "verbs")
    assert done.etag == md5(DATA)
    assert [seen.body for seen in rig.server.seen] == [b"", b""]
    assert rig.server.calls("POST /.hipobj-rc/prepare")[0].headers["x-amz-meta-color"] == "blue"


async def test_get__by_rdma__fills_the_buffer_and_leaves_the_rest(rig: Rig) -> None:
    rig.server.objects["/b/k"] = DATA
    buffer = bytearray(b"." * 5000)
    async with rig.client() as client:
        done = await client.get_into("b", "k", buffer)
    assert bytes(buffer) == DATA + b"." * 904
    assert (done.bytes, done.path, done.etag) == (4096, TransferPath.RDMA, md5(DATA))
    assert done.carrier == "verbs"
    assert len(rig.fabric.lanes[0].view) == 4096, "no more than the object was registered"


async def test_get__range__asks_for_exactly_it(rig: Rig) -> None:
    rig.server.objects["/b/k"] = DATA
    buffer = bytearray(100)
    async with rig.client() as client:
        await client.get_into("b", "k", buffer, offset=1000, length=100)
    assert bytes(buffer) == DATA[1000:1100]
    assert [seen.raw_path for seen in rig.server.seen] == [
        "/.hipobj-rc/prepare",
        "/.hipobj-rc/ready",
    ], "a known extent needs no HEAD"


async def test_prepare__headers__are_complete_and_all_signed(rig: Rig) -> None:
    async with rig.client() as client:
        await client.put_from("b", "a key/%+é", DATA)
    prepare, ready = rig.server.seen
    headers = prepare.headers
    assert headers["x-amz-rdma-protocol"] == "hipobj-rc-v2"
    assert headers["x-amz-rdma-op"] == "PUT"
    assert headers["x-amz-rdma-target"] == "/b/a%20key/%25%2B%C3%A9"
    assert headers["x-amz-rdma-size"] == "4096"
    assert headers["x-amz-rdma-psn"] == "0a0b0c"
    assert int(headers["x-amz-rdma-cookie"], 16) != 0
    assert len(headers["x-amz-rdma-cookie"]) == 8
    assert headers["x-amz-content-sha256"] == hashlib.sha256(b"").hexdigest()
    lane = rig.fabric.lanes[0]
    token = struct.unpack("<BI16sIQQBH", bytes.fromhex(headers["x-amz-rdma-token"]))
    assert token == (1, 0x101, GID, 0x1234, lane.buffer.addr, 4096, 1, 0)
    assert ready.headers["x-amz-rdma-qpn"] == "101"
    assert ready.headers["x-amz-rdma-mr-rkey"] == "1234"
    assert ready.headers["x-amz-rdma-cookie"] == headers["x-amz-rdma-cookie"]
    for seen in (prepare, ready):
        own = {name for name in seen.headers if name.startswith("x-amz-")}
        assert own <= seen.signed


async def test_cookie__of_each_session__is_another(rig: Rig) -> None:
    async with rig.client() as client:
        for _ in range(8):
            await client.put_from("b", "k", DATA)
    cookies = {seen.headers["x-amz-rdma-cookie"] for seen in rig.server.seen}
    assert len(cookies) == 8


def _without(name: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda headers: {key: value for key, value in headers.items() if key != name}


def _with(name: str, value: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda headers: {**headers, name: value}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_without("x-amz-rdma-bytes-transferred"), "bytes-transferred"),
        (_with("x-amz-rdma-bytes-transferred", "4095"), "4095 of 4096"),
        (_without("x-amz-rdma-cookie"), "x-amz-rdma-cookie"),
        (_with("x-amz-rdma-cookie", "00000001"), "cookie"),
        (_without("x-amz-rdma-protocol"), "x-amz-rdma-protocol"),
        (_with("x-amz-rdma-checksum", "CRC64NVME AAAAAAAAAAA="), "CRC64NVME"),
    ],
)
@pytest.mark.parametrize("verb", ["get", "put"])
async def test_ready_reply__wrong__is_no_success(
    rig: Rig, change: Callable[[dict[str, str]], dict[str, str]], text: str, verb: str
) -> None:
    rig.server.objects["/b/k"] = DATA
    rig.server.ready_headers = change
    async with rig.client() as client:
        method = client.put_from if verb == "put" else client.get_into
        with pytest.raises(TransferError, match=text):
            await method("b", "k", bytearray(DATA))


async def test_get__a_flipped_bit__is_found_by_the_checksum(rig: Rig) -> None:
    rig.server.objects["/b/k"] = DATA
    rig.server.flip_byte = True
    async with rig.client() as client:
        with pytest.raises(TransferError, match="CRC64NVME"):
            await client.get_into("b", "k", bytearray(4096))


@pytest.mark.parametrize(
    "refusal",
    [
        (501, "RDMANotSupported", "RDMA is off"),
        (405, "MethodNotAllowed", ""),
        (400, "InvalidBucketName", ""),
    ],
)
async def test_prepare__not_spoken_there__goes_by_http_and_says_so(
    rig: Rig, refusal: tuple[int, str, str]
) -> None:
    rig.server.hooks.append(_refuse_prepare(refusal))
    async with rig.client() as client:
        done = await client.put_from("b", "k", DATA)
        got = await client.get_into("b", "k", buffer := bytearray(4096))
    assert buffer == DATA
    assert done.path is got.path is TransferPath.HTTP
    assert done.device is None
    assert done.reason is not None
    if refusal[0] == 501:
        assert done.reason == "the server answered 501 unsupported: RDMA is off"


async def test_prepare__501_where_rdma_is_required__fails(rig: Rig) -> None:
    rig.server.hooks.append(_refuse_prepare((501, "RDMANotSupported", "RDMA is off")))
    async with rig.client(rdma="require") as client:
        with pytest.raises(UnsupportedError, match="501 unsupported: RDMA is off"):
            await client.put_from("b", "k", DATA)
    assert rig.server.objects == {}


async def test_prepare__200_of_something_else__goes_by_http(rig: Rig) -> None:
    rig.server.hooks.append(
        lambda seen: web.Response(text="hello") if "prepare" in seen.raw_path else None
    )
    async with rig.client() as client:
        done = await client.put_from("b", "k", DATA)
    assert done.reason == "the server does not speak hipobj-rc-v2"


async def test_prepare__malformed_token__is_an_error_that_names_it(rig: Rig) -> None:
    def answer(seen: Seen) -> web.Response | None:
        if "prepare" not in seen.raw_path:
            return None
        return web.Response(
            headers={"x-amz-rdma-protocol": "hipobj-rc-v2", "x-amz-rdma-reply": "200:xyz"}
        )

    rig.server.hooks.append(answer)
    async with rig.client() as client:
        with pytest.raises(TransferError, match="x-amz-rdma-reply"):
            await client.put_from("b", "k", DATA)


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "AccessDenied"), (404, "NoSuchBucket"), (409, "RDMASessionClaimed"), (412, "X")],
)
@pytest.mark.parametrize("step", ["prepare", "ready"])
async def test_step__answered_with_an_error__is_s3s_error(
    rig: Rig, step: str, status: int, code: str
) -> None:
    rig.server.hooks.append(
        lambda seen: (
            error(status, code, "no <way>", x_amz_request_id="R1")
            if step in seen.raw_path
            else None
        )
    )
    async with rig.client() as client:
        with pytest.raises(S3Error, match=f"{code} .{status}.: no <way> .request R1.") as caught:
            await client.put_from("b", "k", DATA)
    assert (caught.value.code, caught.value.status) == (code, status)


@pytest.mark.parametrize("step", ["prepare", "ready"])
async def test_step__busy_then_free__is_tried_again_with_a_new_session(rig: Rig, step: str) -> None:
    busy = iter([True, True])
    rig.server.hooks.append(
        lambda seen: (
            error(503, "SlowDown", "lanes are lent", Retry_After="1")
            if step in seen.raw_path and next(busy, False)
            else None
        )
    )
    async with rig.client() as client:
        done = await client.put_from("b", "k", DATA)
    assert done.path is TransferPath.RDMA
    assert len(rig.fabric.lanes) == 3


async def test_prepare__always_busy__gives_up_with_slow_down(rig: Rig) -> None:
    rig.server.hooks.append(
        lambda seen: error(503, "SlowDown", "busy") if "prepare" in seen.raw_path else None
    )
    async with rig.client(limits=rig.tight(attempts=3)) as client:
        with pytest.raises(S3Error, match="SlowDown"):
            await client.put_from("b", "k", DATA)
    assert len(rig.server.seen) == 3


async def test_put__the_wire_fails__cancels_the_session_and_says_why(rig: Rig) -> None:
    rig.fabric.write_error = lost()
    async with rig.client() as client:
        with pytest.raises(TransferError, match="retries exceeded"):
            await client.put_from("b", "k", DATA)
    assert rig.server.calls("POST /.hipobj-rc/cancel")
    assert rig.server.objects == {}


@pytest.mark.parametrize("verb", ["put", "get"])
async def test_transfer__no_packet_of_the_soft_fabric_gets_through__goes_by_http_from_then_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(rig.fabric, "info", replace(rig.fabric.info, kind="soft"))
    unanswered = CompletionError("write", "RETRY_EXC_ERR", CompletionClass.TRANSPORT, "ERR")
    rig.fabric.write_error = unanswered
    rig.server.hooks.append(
        lambda seen: (
            error(500, "RDMATransferFailed", str(unanswered))
            if verb == "get" and "ready" in seen.raw_path
            else None
        )
    )
    rig.server.objects["/b/k"] = DATA
    async with rig.client() as client:
        method = client.put_from if verb == "put" else client.get_into
        for _ in range(2):
            done = await method("b", "k", buffer := bytearray(DATA))
            assert (done.path, done.carrier, buffer) == (TransferPath.HTTP, None, DATA)
            assert "no packet of the soft fabric gets through" in str(done.reason)
        assert len(rig.server.calls("POST /.hipobj-rc/prepare")) == 1
    assert rig.server.objects == {"/b/k": DATA}


async def test_transfer__no_packet_gets_through_and_rdma_is_required__fails_and_says_what_to_do(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.fabric, "info", replace(rig.fabric.info, kind="soft"))
    rig.fabric.write_error = CompletionError(
        "write", "RETRY_EXC_ERR", CompletionClass.TRANSPORT, "ERR"
    )
    async with rig.client(rdma="require") as client:
        with pytest.raises(UnsupportedError, match=r"rdma.soft_address there and --device soft:"):
            await client.put_from("b", "k", DATA)


async def test_get__no_data_comes__ends_at_the_deadline(rig: Rig) -> None:
    rig.server.objects["/b/k"] = DATA
    rig.server.deliver = False
    async with rig.client(limits=rig.tight(transfer_timeout_s=0.05)) as client:
        with pytest.raises(TransferError, match=r"within 0\.05 s; --http"):
            await client.get_into("b", "k", bytearray(4096))
    assert rig.server.calls("POST /.hipobj-rc/cancel")


async def test_get__another_immediate__is_refused(rig: Rig) -> None:
    rig.server.objects["/b/k"] = DATA
    rig.server.deliver = False

    def deliver_wrongly(seen: Seen) -> None:
        if "ready" in seen.raw_path:
            rig.fabric.lanes[0].arrived.set_result(1)

    rig.server.hooks.append(deliver_wrongly)
    async with rig.client() as client:
        with pytest.raises(TransferError, match="immediate"):
            await client.get_into("b", "k", bytearray(4096))


async def test_get__cancelled__has_closed_the_lane_before_it_ends(rig: Rig) -> None:
    rig.server.objects["/b/k"] = DATA
    rig.server.deliver = False
    answered = asyncio.Event()

    def note(seen: Seen) -> None:
        if "ready" in seen.raw_path:
            answered.set()

    rig.server.hooks.append(note)
    async with rig.client() as client:
        task = asyncio.create_task(client.get_into("b", "k", bytearray(4096)))
        await answered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert rig.fabric.lanes[0].closed == 1


async def test_attach__memory_not_taken__goes_by_http_and_names_the_remedy(rig: Rig) -> None:
    rig.fabric.attach_error = BusyError("raise memlock")
    async with rig.client() as client:
        done = await client.put_from("b", "k", DATA)
    assert done.path is TransferPath.HTTP
    assert "raise memlock" in str(done.reason)


async def test_device__gone_down__goes_by_http(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig.fabric, "healthy", False)
    async with rig.client() as client:
        done = await client.put_from("b", "k", DATA)
    assert "went down" in str(done.reason)


async def test_check_server__on_and_off__says_so(rig: Rig) -> None:
    async with rig.client() as client:
        await client.check_server()
        rig.server.hooks.append(lambda _seen: error(501, "RDMANotSupported", "RDMA is off"))
        with pytest.raises(UnsupportedError, match="RDMA is off"):
            await client.check_server()


def _refuse_prepare(refusal: tuple[int, str, str]) -> Callable[[Seen], web.Response | None]:
    return lambda seen: error(*refusal) if seen.raw_path.endswith("/prepare") else None
