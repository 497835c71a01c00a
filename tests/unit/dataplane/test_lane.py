"""One use of a lane, with the C side played by the test: it accepts, and events come when told."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Any

import pytest

from gateway.dataplane import binding
from gateway.dataplane.binding import Event, EventKind
from gateway.dataplane.failures import CompletionError
from gateway.dataplane.lane import Core, EngineLane
from gateway.dataplane.networks import Networks, parse_networks
from gateway.dataplane.port import CompletionClass, FabricInfo, LinkLayer, QpAddress, RemoteBuffer
from gateway.errors import ClientError, InternalError, S3Code, TransportError
from gateway.wire.extent import FileExtent

IPV4 = bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 1])
TO = RemoteBuffer(addr=1, rkey=2, length_bytes=100)
EXTENTS = [FileExtent(0, 0, 10)]


class FakeC:
    """Records the calls of gateway.dataplane.binding; `refuse` makes the next ones fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.refuse = 0
        self.carrier = ""
        for name in ("connect", "receive", "send", "write", "read", "abort"):
            monkeypatch.setattr(binding, f"lane_{name}", self._recorder(name))
        monkeypatch.setattr(binding, "lane_qpn", lambda _lane: 17)
        monkeypatch.setattr(binding, "lane_rkey", lambda _lane: 99)
        monkeypatch.setattr(binding, "lane_carrier", lambda _lane: self.carrier)

    def _recorder(self, name: str) -> Callable[..., int]:
        def call(*_args: Any, **_kwargs: Any) -> int:
            self.calls.append(name)
            if self.refuse:
                raise OSError(self.refuse, os.strerror(self.refuse))
            return 0

        return call


class Home:
    """The fabric that a lane goes back to."""

    close_limit_s = 5.0
    allowed: Networks | None = None

    def __init__(self, link_layer: LinkLayer = LinkLayer.ETHERNET) -> None:
        self.info = FabricInfo("verbs", "fake0", 1, IPV4, 1, 9, link_layer, 4096, 1 << 30)
        self.retired = 0
        self.release = asyncio.Event()
        self.release.set()

    async def retire(self, core: Core) -> None:
        await self.release.wait()
        await core.settled()
        self.retired += 1


@pytest.fixture
def c(monkeypatch: pytest.MonkeyPatch) -> FakeC:
    return FakeC(monkeypatch)


@pytest.fixture
def core(c: FakeC) -> Core:
    memory = bytearray(64)
    pointer = binding.borrow(memory, writable=True)
    return Core(object(), 5, pointer, memoryview(memory))


@pytest.fixture
async def home() -> Home:
    return Home()


@pytest.fixture
def lane(home: Home, core: Core) -> EngineLane:
    return EngineLane(home, core, 0x123456)


async def settle(core: Core, task: asyncio.Task[Any], event: Event) -> None:
    """Let `task` begin to wait, then give it `event`."""
    await asyncio.sleep(0)
    core.dispatch(event)
    await asyncio.wait({task})


def test_local__is_what_the_peer_needs(lane: EngineLane) -> None:
    assert lane.local == QpAddress(17, 0x123456, IPV4, 9)
    assert lane.buffer.rkey == 99
    assert lane.buffer.length_bytes == 64


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Event(5, EventKind.RECEIVED, imm=8, bytes_done=10, write_imm=True), "cookie"),
        (Event(5, EventKind.RECEIVED, imm=7, bytes_done=9, write_imm=True), "9 bytes where 10"),
        (Event(5, EventKind.RECEIVED, imm=7, bytes_done=10), "no RDMA WRITE"),
        (Event(5, EventKind.RECEIVED, status=-errno.ECANCELED), "closed meanwhile"),
        (Event(5, EventKind.RECEIVED, status=-errno.EREMOTEIO, wc_status=1), "LOC_LEN_ERR"),
    ],
)
async def test_received__anything_but_the_announced__transport_error(
    lane: EngineLane, core: Core, event: Event, text: str
) -> None:
    lane.post_receive()
    core.dispatch(event)
    with pytest.raises(TransportError, match=text):
        await lane.received(7, 10, 1.0)


async def test_received__event_before_the_wait__is_not_lost(lane: EngineLane, core: Core) -> None:
    lane.post_receive()
    core.dispatch(Event(5, EventKind.RECEIVED, imm=7, bytes_done=10, write_imm=True))
    assert await lane.received(7, None, 1.0) == 10


async def test_received__nothing_posted__a_bug_not_a_hang(lane: EngineLane) -> None:
    with pytest.raises(RuntimeError, match="nothing was posted"):
        await lane.received(7, 10, 1.0)


async def test_received__deadline__408_and_the_receive_stays_for_close(
    lane: EngineLane, c: FakeC
) -> None:
    lane.post_receive()
    with pytest.raises(TransportError) as caught:
        await lane.received(7, 10, 0.0)
    assert caught.value.code is S3Code.RDMA_TRANSFER_TIMEOUT
    assert "abort" not in c.calls


async def test_send_extents__acknowledged__its_bytes(lane: EngineLane, core: Core) -> None:
    task = asyncio.ensure_future(lane.send_extents(EXTENTS, TO, 7, 1.0))
    await settle(core, task, Event(5, EventKind.SENT, bytes_done=10))
    assert task.result() == 10


async def test_send_extents__deadline__aborts_before_the_caller_can_close_its_files(
    lane: EngineLane, c: FakeC
) -> None:
    with pytest.raises(TransportError) as caught:
        await lane.send_extents(EXTENTS, TO, 7, 0.0)
    assert caught.value.code is S3Code.RDMA_TRANSFER_TIMEOUT
    assert c.calls == ["send", "abort"]


async def test_send_extents__cancelled__aborts_once(lane: EngineLane, core: Core, c: FakeC) -> None:
    task = asyncio.ensure_future(lane.send_extents(EXTENTS, TO, 7, 9.0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    core.abort()
    assert c.calls == ["send", "abort"]


@pytest.mark.parametrize(
    ("status", "cause"), [(errno.ENODATA, "shorter than"), (errno.EIO, "Input/output error")]
)
async def test_send_extents__our_disk__internal_error_with_the_cause(
    lane: EngineLane, core: Core, status: int, cause: str
) -> None:
    task = asyncio.ensure_future(lane.send_extents(EXTENTS, TO, 7, 9.0))
    await settle(core, task, Event(5, EventKind.SENT, status=-status))
    error = task.exception()
    assert isinstance(error, InternalError)
    assert cause in error.cause
    assert cause not in error.message


async def test_write__failed_completion__class_state_and_causes(
    lane: EngineLane, core: Core
) -> None:
    task = asyncio.ensure_future(lane.write(10, TO, 7, 9.0))
    failed = Event(5, EventKind.WRITTEN, status=-errno.EREMOTEIO, wc_status=12, qp_state=6)
    await settle(core, task, failed)
    error = task.exception()
    assert isinstance(error, CompletionError)
    assert error.blame is CompletionClass.TRANSPORT
    assert (error.wc_name, error.qp_state) == ("RETRY_EXC_ERR", "ERR")


async def test_read__done_without_its_data__transport_error_with_the_remedy(
    lane: EngineLane, core: Core
) -> None:
    task = asyncio.ensure_future(lane.read(10, TO, 9.0))
    await settle(core, task, Event(5, EventKind.READ, status=-errno.EPROTO))
    error = task.exception()
    assert isinstance(error, TransportError)
    assert "had not placed" in error.message
    assert 'rdma.fabric = "soft"' in error.message


async def test_read__port_lost__ends_at_once(lane: EngineLane, core: Core) -> None:
    task = asyncio.ensure_future(lane.read(10, TO, 9.0))
    await asyncio.sleep(0)
    core.lose()
    with pytest.raises(TransportError, match="went away"):
        await task
    core.dispatch(Event(5, EventKind.READ, status=-errno.ECANCELED))  # C's own comes later


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.EMSGSIZE, ClientError),
        (errno.EBUSY, RuntimeError),
        (errno.ENOTCONN, RuntimeError),
        (errno.EPIPE, TransportError),
        (errno.ENODEV, TransportError),
    ],
)
async def test_transfers__refused_at_once__by_whose_fault_it_is(
    lane: EngineLane, c: FakeC, code: int, error: type[Exception]
) -> None:
    c.refuse = code
    with pytest.raises(error):
        await lane.send_extents(EXTENTS, TO, 7, 9.0)
    with pytest.raises(error):
        await lane.write(10, TO, 7, 9.0)
    with pytest.raises(error):
        await lane.read(10, TO, 9.0)
    with pytest.raises(error):
        lane.post_receive()


@pytest.mark.parametrize(
    ("peer", "text"),
    [
        (QpAddress(0, 1, IPV4, 0), "must not be 0"),
        (QpAddress(1, 0, IPV4, 0), "must not be 0"),
        (QpAddress(1, 1, b"\xfe\x80" + bytes(14), 0), "address family"),
    ],
)
async def test_connect__unroutable_peer__is_the_clients_error(
    lane: EngineLane, peer: QpAddress, text: str
) -> None:
    with pytest.raises(ClientError, match=text) as caught:
        lane.connect(peer)
    assert caught.value.code is S3Code.INVALID_ARGUMENT


async def test_connect__infiniband_without_a_lid__is_the_clients_error(core: Core) -> None:
    lane = EngineLane(Home(LinkLayer.INFINIBAND), core, 1)
    with pytest.raises(ClientError, match="LID 0"):
        lane.connect(QpAddress(1, 1, IPV4, 0))
    lane.connect(QpAddress(1, 1, b"\xfe\x80" + bytes(14), 3))  # GIDs have no family there


@pytest.mark.parametrize(
    ("networks", "reached"),
    [(("192.0.2.0/24",), True), (("10.0.0.0/8", "fd00::/8"), False), ((), False)],
)
async def test_connect__peer_of_another_network__is_sent_to_http(
    core: Core, networks: tuple[str, ...], reached: bool
) -> None:
    home = Home()
    home.allowed = parse_networks(networks)
    lane = EngineLane(home, core, 1)
    peer = QpAddress(1, 1, IPv6Address("::ffff:192.0.2.9").packed, 0)
    if reached:
        lane.connect(peer)
        return
    with pytest.raises(ClientError, match=r"none of rdma\.allowed_networks") as caught:
        lane.connect(peer)
    assert caught.value.code.status == 501


async def test_connect__infiniband__asks_no_network(core: Core) -> None:
    home = Home(LinkLayer.INFINIBAND)
    home.allowed = ()
    EngineLane(home, core, 1).connect(QpAddress(1, 1, b"\xfe\x80" + bytes(14), 3))


async def test_connect__device_refuses__transport_error(lane: EngineLane, c: FakeC) -> None:
    c.refuse = errno.ETIMEDOUT
    with pytest.raises(TransportError, match="timed out"):
        lane.connect(QpAddress(1, 1, IPV4, 0))


async def test_abort__device_refuses__is_left_to_close(core: Core, c: FakeC) -> None:
    c.refuse = errno.EIO
    assert not core.abort().done()


async def test_close__twice_and_cancelled__one_teardown_to_its_end(
    lane: EngineLane, home: Home
) -> None:
    home.release.clear()
    closing = asyncio.ensure_future(lane.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    home.release.set()
    await lane.close()
    assert home.retired == 1
    for use in (lane.post_receive, lambda: lane.connect(QpAddress(1, 1, IPV4, 0))):
        with pytest.raises(TransportError, match="closed"):
            use()


async def test_carrier__settled_by_the_transfer__outlives_the_lane(
    lane: EngineLane, c: FakeC
) -> None:
    assert lane.carrier == ""
    c.carrier = "local"
    await lane.close()
    c.carrier = ""
    assert lane.carrier == "local"


async def test_close__teardown_hangs__returns_at_its_limit(lane: EngineLane, home: Home) -> None:
    home.release.clear()
    home.close_limit_s = 0.0
    await lane.close()
    assert home.retired == 0
    home.release.set()
    await lane.begin_close()
    assert home.retired == 1


async def test_store__writes_the_lanes_bytes_at_the_offset(lane: EngineLane) -> None:
    lane.memory[:5] = b"hello"
    fd = os.memfd_create("stored")
    await lane.store(fd, 3, 5)
    assert os.pread(fd, 10, 0) == bytes(3) + b"hello"
    os.close(fd)
    with pytest.raises(InternalError) as caught:
        await lane.store(fd, 0, 5)
    assert "Bad file descriptor" in caught.value.cause
    with pytest.raises(ValueError, match="shorter"):
        await lane.store(fd, 0, 65)


async def test_store__cancelled__returns_only_when_the_thread_is_done(
    lane: EngineLane, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(*_args: Any) -> None:
        entered.set()
        assert leave.wait(10)

    monkeypatch.setattr(binding, "memory_store", slow)
    storing = asyncio.ensure_future(lane.store(1, 0, 5))
    await asyncio.to_thread(entered.wait, 10)
    storing.cancel()
    closing = asyncio.ensure_future(lane.close())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not storing.done()
    assert home.retired == 0
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await storing
    await closing
    assert home.retired == 1


def test_remote_buffer__repr__has_no_rkey() -> None:
    assert "1234" not in repr(RemoteBuffer(addr=1, rkey=1234, length_bytes=5))
