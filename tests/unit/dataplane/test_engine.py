"""The fabric's shell with the C side played by the test: leases, teardown, health, refusals."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.config import LaneClass, RdmaConfig
from gateway.dataplane import binding, devices, engine, soft
from gateway.dataplane import fabric as fabric_module
from gateway.dataplane.binding import Event, EventKind
from gateway.dataplane.census import Occupancy
from gateway.dataplane.devices import DeviceInfo, Gid, GidType
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.port import FabricUnavailable, Need
from gateway.errors import BusyError, TransportError

IPV4 = bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 1])
DEVICE = DeviceInfo("fake0", port=1, gids=(Gid(3, IPV4, GidType.ROCE_V2),))
CONFIG = RdmaConfig(
    lanes=(LaneClass(2, 5000),),
    connections=0,
    quarantine_s=0.0,
    drain_timeout_s=0.05,
    max_sessions=3,
)


class FakeC:
    """The functions of gateway.dataplane.binding that the engine calls, over an eventfd."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.events: list[Event] = []
        self.health = binding.HEALTH_OK
        self.drains = True
        self.fails: dict[str, int] = {}  # function -> errno
        self.spares_soft = False  # where only a device refuses
        self.calls: list[str] = []
        self.options: dict[str, Any] = {}
        self._qpns = itertools.count(100)
        for name, play in {
            "fabric_open": self._open,
            "fabric_query": lambda _f: SimpleNamespace(
                gid=IPV4, lid=0, mtu_bytes=1024, mtu_active_bytes=4096, message_max_bytes=1 << 30
            ),
            "fabric_fd": lambda _f: self.fd,
            "fabric_drain": self._drain,
            "fabric_health": lambda _f: self.health,
            "fabric_close": lambda _f: None,
            "lane_open": lambda _f, _memory, _length, _access, tag: tag,
            "lane_close": lambda _lane: None,
            "lane_qpn": lambda _lane: next(self._qpns),
            "lane_rkey": lambda _lane: 1,
            "lane_carrier": lambda _lane: "verbs",
            "lane_prepare": lambda _lane, _psn, _access: None,
            "lane_abort": lambda lane: self.drains and self.emit(Event(lane, EventKind.DRAINED)),
            "lane_replace": lambda lane: self.emit(Event(lane, EventKind.DRAINED)),
            "lane_recycle": lambda _lane: None,
            "lane_receive": lambda _lane: 0,
        }.items():
            monkeypatch.setattr(binding, name, self._recorder(name, play))
        monkeypatch.setattr(engine, "list_devices", lambda: (DEVICE,))

    def emit(self, event: Event) -> None:
        self.events.append(event)
        os.eventfd_write(self.fd, 1)

    def _recorder(self, name: str, play: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            kind = kwargs.get("kind", self.options.get("kind"))
            spared = self.spares_soft and kind == binding.FABRIC_SOFT
            if (code := self.fails.get(name)) and not spared:
                raise OSError(code, os.strerror(code))
            return play(*args, **kwargs)

        return call

    def _open(self, **options: Any) -> str:
        self.options = options
        return "fabric"

    def _drain(self, _fabric: Any, _rows: Any) -> list[Event]:
        taken, self.events = self.events, []
        if not taken:
            os.eventfd_read(self.fd)
        return taken


def raiser(error: Exception) -> Callable[..., Any]:
    def call(*_args: object) -> Any:
        raise error

    return call


@pytest.fixture
def c(monkeypatch: pytest.MonkeyPatch) -> FakeC:
    return FakeC(monkeypatch)


@pytest.fixture
async def fabric(c: FakeC) -> AsyncIterator[EngineFabric]:
    fabric = open_fabric(CONFIG, arena=True)
    yield fabric
    await fabric.close()
    os.close(c.fd)


async def test_open_fabric__settings__reach_the_core(fabric: EngineFabric, c: FakeC) -> None:
    assert c.options["device"] == b"fake0"
    assert c.options["gid_index"] == 3
    assert c.options["lanes_max"] == 2
    assert (fabric.info.mtu_bytes, fabric.info.mtu_active_bytes) == (1024, 4096)
    assert fabric.idle_lanes == 2


@pytest.mark.parametrize(
    ("function", "code", "text"),
    [
        ("lane_open", errno.ENOMEM, "LimitMEMLOCK=infinity.*fewer lanes"),
        ("lane_open", errno.EPERM, "CAP_IPC_LOCK"),
        ("fabric_open", errno.EIO, "fake0 port 1 can't be opened"),
        ("fabric_open", errno.ELIBACC, "libibverbs is not installed"),
    ],
)
async def test_open_fabric__host_refuses__reason_and_remedy(
    c: FakeC, function: str, code: int, text: str
) -> None:
    c.fails[function] = code
    with pytest.raises(FabricUnavailable, match=text):
        open_fabric(replace(CONFIG, fabric="verbs"), arena=True)
    assert ("fabric_close" in c.calls) == (function == "lane_open")


@pytest.mark.parametrize(
    ("config", "kind", "because"),
    [
        (CONFIG, "verbs", "it is the first that can be used"),
        (replace(CONFIG, fabric="verbs", device="fake0"), "verbs", "rdma.device names it"),
        (replace(CONFIG, fabric="soft"), "soft", "rdma.fabric asks for it"),
    ],
)
async def test_open_fabric__each_setting__says_which_and_why(
    c: FakeC, config: RdmaConfig, kind: str, because: str
) -> None:
    fabric = open_fabric(config, arena=True)
    assert (fabric.info.kind, fabric.info.because) == (kind, because)
    await fabric.close()


@pytest.mark.parametrize(
    ("function", "code", "because"),
    [
        ("list_devices", errno.ENOSYS, "the kernel has no RDMA devices"),
        ("fabric_open", errno.EIO, "fake0 port 1 can't be opened"),
        ("lane_open", errno.ENOMEM, "can't be pinned"),
    ],
)
async def test_open_fabric__auto_and_no_device_will_do__takes_soft_and_says_why(
    c: FakeC, monkeypatch: pytest.MonkeyPatch, function: str, code: int, because: str
) -> None:
    if function == "list_devices":
        monkeypatch.setattr(engine, "list_devices", raiser(devices.unavailable(OSError(code, ""))))
    c.fails[function], c.spares_soft = code, True
    fabric = open_fabric(CONFIG, arena=True)
    assert fabric.info.kind == "soft"
    assert because in fabric.info.because
    await fabric.close()
    named = replace(CONFIG, device="fake0")  # is wanted, and no other
    with pytest.raises(FabricUnavailable, match=because):
        open_fabric(named, arena=True)


async def test_open_fabric__auto_and_nothing_will_do__names_both_reasons(c: FakeC) -> None:
    c.fails["fabric_open"] = errno.EADDRINUSE
    with pytest.raises(FabricUnavailable, match=r"fake0 port 1 can't.*, and UDP port 4791.*taken"):
        open_fabric(CONFIG, arena=True)


async def test_open_fabric__soft_and_no_room__names_the_limit_that_counts(
    monkeypatch: pytest.MonkeyPatch, c: FakeC
) -> None:
    monkeypatch.setattr(soft, "map_zeros", raiser(OSError(errno.ENOMEM, "no room")))
    with pytest.raises(FabricUnavailable, match=r"can't be mapped \(no room\).*ulimit -v"):
        open_fabric(replace(CONFIG, fabric="soft"), arena=True)
    assert "fabric_close" in c.calls


async def test_lease__each_use__a_psn_of_its_own_and_never_zero(
    fabric: EngineFabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    for draw in (0, (1 << 24) - 2):
        monkeypatch.setattr(
            fabric_module.secrets, "randbelow", lambda below, draw=draw: draw % below
        )
        lane = fabric.lease(Need.SEND, 10)
        drawn.append(lane.local.psn)
        await lane.close()
    assert drawn == [1, 0xFFFFFF]


async def test_lease__memory__two_lanes_never_overlap(fabric: EngineFabric) -> None:
    one, two = fabric.lease(Need.SEND, 10), fabric.lease(Need.SEND, 10)
    assert one.memory.nbytes == 8192  # whole pages: what a device protects
    assert abs(one.buffer.addr - two.buffer.addr) >= 8192
    await asyncio.gather(one.close(), two.close())
    assert fabric.idle_lanes == 2


@pytest.mark.parametrize(("second", "left"), [("alice", b"hers"), ("bob", bytes(4))])
@pytest.mark.parametrize("need", list(Need))
async def test_dedicate__memory_of_another__is_overwritten(
    c: FakeC, need: Need, second: str, left: bytes
) -> None:
    fabric = open_fabric(replace(CONFIG, lanes=(LaneClass(1, 5000),)), arena=True)
    first = fabric.lease(need, 10)
    await first.dedicate("alice")
    first.memory[-4:] = b"hers"
    await first.close()
    again = fabric.lease(Need.RECEIVE, 10)
    await again.dedicate(second)
    assert again.memory[-4:] == left
    await fabric.close()


async def test_dedicate__cancelled__is_done_again_for_the_next(
    c: FakeC, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = open_fabric(replace(CONFIG, lanes=(LaneClass(1, 5000),)), arena=True)
    first = fabric.lease(Need.SEND, 10)
    await first.dedicate("alice")
    first.memory[:4] = b"hers"
    cleaning = asyncio.ensure_future(first.dedicate("bob"))
    await asyncio.sleep(0)
    cleaning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cleaning
    first.memory[:4] = b"hers"  # as if it had not come so far
    await first.close()
    again = fabric.lease(Need.SEND, 10)
    await again.dedicate("bob")
    assert again.memory[:4] == bytes(4)
    await fabric.close()


async def test_close__lane_does_not_drain__queue_pair_is_replaced_then_lent_again(
    fabric: EngineFabric, c: FakeC
) -> None:
    c.drains = False
    await fabric.lease(Need.SEND, 10).close()
    assert fabric.idle_lanes == 2
    teardown = [name for name in c.calls if name in ("lane_abort", "lane_replace", "lane_recycle")]
    assert teardown == ["lane_abort", "lane_replace", "lane_recycle"]


async def test_close__lane_cannot_be_recycled__is_lost_not_lent(
    fabric: EngineFabric, c: FakeC, caplog: pytest.LogCaptureFixture
) -> None:
    c.fails["lane_recycle"] = errno.ENODEV
    await fabric.lease(Need.SEND, 10).close()
    assert "lost to the arena" in caplog.text
    assert fabric.idle_lanes == 1
    assert fabric.usage().lanes == Occupancy(free=1, leased=0, resting=0)


async def test_lease__queue_pair_refused__lane_comes_back(fabric: EngineFabric, c: FakeC) -> None:
    c.fails["lane_prepare"] = errno.EIO
    with pytest.raises(TransportError, match="can't be prepared"):
        fabric.lease(Need.SEND, 10)
    assert fabric.idle_lanes == 1
    await fabric.close()  # waits for the teardown that the refusal began
    assert fabric.idle_lanes == 2


async def test_health__port_gone__pending_ends_and_new_work_is_busy(
    fabric: EngineFabric, c: FakeC
) -> None:
    lane = fabric.lease(Need.RECEIVE, 10)
    lane.post_receive()
    waiting = asyncio.ensure_future(lane.received(1, 1, 9.0))
    await asyncio.sleep(0)
    c.health = 1
    c.emit(Event(0, EventKind.HEALTH))
    with pytest.raises(TransportError, match="went away"):
        await waiting
    assert not fabric.healthy
    with pytest.raises(BusyError, match="fake0 port 1"):
        fabric.lease(Need.SEND, 1)
    with pytest.raises(BusyError):
        fabric.attach(bytearray(1), remote_write=True)
    c.health = binding.HEALTH_OK
    c.emit(Event(0, EventKind.HEALTH))
    await lane.close()
    assert fabric.healthy


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (errno.ENOSPC, BusyError, "rdma.max_sessions"),
        (errno.ENOMEM, TransportError, "ulimit -l unlimited"),
        (errno.EPERM, TransportError, "CAP_IPC_LOCK"),
        (errno.EINVAL, TransportError, "can't be registered"),
    ],
)
async def test_attach__refused__names_the_remedy_and_lets_go_of_the_buffer(
    c: FakeC, code: int, error: type[Exception], text: str
) -> None:
    fabric = open_fabric(CONFIG, arena=False)
    assert c.options["lanes_max"] == 3
    c.fails["lane_open"] = code
    buffer = bytearray(10)
    with pytest.raises(error, match=text) as caught:
        fabric.attach(buffer, remote_write=True)
    buffer.extend(b"more")  # although the error's traceback is still held
    assert caught.value.__cause__ is not None
    await fabric.close()


async def test_attach__buffer__is_held_in_place_until_close(c: FakeC) -> None:
    fabric = open_fabric(CONFIG, arena=False)
    buffer = bytearray(10)
    lane = fabric.attach(buffer, remote_write=True, remote_read=True)
    with pytest.raises(BufferError):
        buffer.extend(b"more")
    await lane.close()
    assert "lane_close" in c.calls
    with pytest.raises(RuntimeError, match="without an arena"):
        fabric.lease(Need.SEND, 1)
    with pytest.raises((BufferError, TypeError, ValueError)):
        fabric.attach(b"read-only", remote_write=True)
    await fabric.close()


async def test_close__fabric__closes_its_lanes_first(c: FakeC) -> None:
    fabric = open_fabric(CONFIG, arena=True)
    fabric.lease(Need.SEND, 1)
    await asyncio.gather(fabric.close(), fabric.close())
    assert c.calls.index("lane_abort") < c.calls.index("fabric_close")
    assert c.calls.count("fabric_close") == 1
    with pytest.raises(BusyError):
        fabric.lease(Need.SEND, 1)
