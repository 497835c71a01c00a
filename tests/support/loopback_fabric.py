"""An in-process fabric that keeps dataplane/port.py, for tests without a device.

Lanes of any two LoopbackFabrics on one Wire reach each other by QPN. Bytes are copied between
their memories; what a real device would refuse (wrong PSN, wrong rkey, an extent beyond the
buffer) fails here with the same error classes. `Wire.drop`, `Wire.hold` and `LoopbackFabric.fail`
force what is hard to force on a device.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.dataplane.port import FabricInfo, LinkLayer, Need, QpAddress, RemoteBuffer
from gateway.errors import BusyError, ClientError, S3Code, TransportError
from gateway.wire.extent import FileExtent

GID = bytes.fromhex("00000000000000000000ffff0a4d0001")


@dataclass
class Wire:
    """What connects fabrics: every open lane by QPN, and the faults that tests ask for.

    Attributes:
        drop: while set, nothing arrives and no sender hears of it.
        hold: transfers wait for this event before they move.
    """

    drop: bool = False
    hold: asyncio.Event | None = None
    lanes: dict[int, LoopbackLane] = field(default_factory=dict)
    _qpns: itertools.count[int] = field(default_factory=lambda: itertools.count(0x11))

    def next_qpn(self) -> int:
        return next(self._qpns)

    async def pass_through(self, deadline_s: float) -> None:
        """Wait as the test wishes; a dropped packet ends in the sender's own deadline."""
        if self.hold is not None:
            try:
                await asyncio.wait_for(self.hold.wait(), deadline_s)
            except TimeoutError as error:
                raise timed_out() from error
        if self.drop:
            raise timed_out()


def timed_out() -> TransportError:
    return TransportError(code=S3Code.RDMA_TRANSFER_TIMEOUT)


class LoopbackLane:
    """One side of a pair; `peer` is found through the wire when something moves."""

    def __init__(
        self, wire: Wire, memory: memoryview, fabric: LoopbackFabric, remote_write: bool
    ) -> None:
        self._wire = wire
        self._memory = memory
        self._fabric = fabric
        self._remote_write = remote_write
        self._local = QpAddress(wire.next_qpn(), int.from_bytes(os.urandom(2)) + 1, GID, 0)
        self._buffer = RemoteBuffer(
            0x7F00_0000_0000 + self._local.qpn * 2**32, 0xABC000 + self._local.qpn, len(memory)
        )
        self._peer: QpAddress | None = None
        self._receives = asyncio.Semaphore(0)
        self._arrived: deque[tuple[int, int]] = deque()
        self._wakes = asyncio.Event()
        self.closed = False
        self.owner: str | None = None
        wire.lanes[self._local.qpn] = self

    @property
    def local(self) -> QpAddress:
        return self._local

    @property
    def buffer(self) -> RemoteBuffer:
        return self._buffer

    @property
    def carrier(self) -> str:
        return "loopback"

    @property
    def memory(self) -> memoryview:
        if self.closed:
            raise ValueError("the lane is closed")
        return self._memory

    async def dedicate(self, owner: str) -> None:
        self._fabric.step("dedicate")
        self.owner = owner

    def connect(self, peer: QpAddress) -> None:
        self._fabric.step("connect")
        self._peer = peer

    def post_receive(self) -> None:
        self._fabric.step("post_receive")
        self._receives.release()

    async def received(self, cookie: int, length_bytes: int | None, deadline_s: float) -> int:
        await self._fabric.pause("received")
        try:
            async with asyncio.timeout(deadline_s):
                while not self._arrived:
                    self._wakes.clear()
                    await self._wakes.wait()
        except TimeoutError as error:
            raise timed_out() from error
        immediate, arrived_bytes = self._arrived.popleft()
        if immediate != cookie:
            raise TransportError("The immediate is not the session's cookie.")
        if length_bytes is not None and arrived_bytes != length_bytes:
            raise TransportError(f"{arrived_bytes} bytes came instead of {length_bytes}.")
        return arrived_bytes

    async def send_extents(
        self,
        extents: Sequence[FileExtent],
        to: RemoteBuffer,
        cookie: int | None,
        deadline_s: float,
    ) -> int:
        await self._fabric.pause("send_extents")
        await self._wire.pass_through(deadline_s)
        data = b"".join(os.pread(e.fd, e.length_bytes, e.offset_bytes) for e in extents)
        self._place(data, to)
        if cookie is not None:
            await self._signal(cookie, len(data), deadline_s)
        return len(data)

    async def write(
        self, length_bytes: int, to: RemoteBuffer, cookie: int, deadline_s: float
    ) -> None:
        await self._fabric.pause("write")
        await self._wire.pass_through(deadline_s)
        self._place(bytes(self._memory[:length_bytes]), to)
        await self._signal(cookie, length_bytes, deadline_s)

    async def read(self, length_bytes: int, source: RemoteBuffer, deadline_s: float) -> None:
        await self._wire.pass_through(deadline_s)
        peer, start = self._reach(source, length_bytes)
        self._memory[:length_bytes] = peer._memory[start : start + length_bytes]

    async def store(self, fd: int, file_offset_bytes: int, length_bytes: int) -> None:
        await self._fabric.pause("store")
        await asyncio.to_thread(os.pwrite, fd, self._memory[:length_bytes], file_offset_bytes)

    async def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._wire.lanes.pop(self._local.qpn, None)
        await asyncio.sleep(0)  # the drain takes its time
        self._fabric.returned(self)

    def _place(self, data: bytes, to: RemoteBuffer) -> None:
        peer, start = self._reach(to, len(data))
        if not peer._remote_write:
            raise TransportError("REM_ACCESS_ERR (remote): the peer's memory is not writable.")
        peer._memory[start : start + len(data)] = data

    def _reach(self, memory: RemoteBuffer, length_bytes: int) -> tuple[LoopbackLane, int]:
        """The peer and the offset in its memory, if a device would let the packet through."""
        peer = self._wire.lanes.get(self._peer.qpn) if self._peer else None
        if peer is None or self._peer is None:
            raise TransportError("RETRY_EXC_ERR (transport): no answer.")
        expected = peer._peer
        if self._peer.psn != peer.local.psn or (expected and expected.psn != self.local.psn):
            raise timed_out()  # a packet with another PSN is dropped without a trace
        start = memory.addr - peer.buffer.addr
        inside = start >= 0 and start + length_bytes <= peer.buffer.length_bytes
        if memory.rkey != peer.buffer.rkey or not inside:
            raise TransportError("REM_ACCESS_ERR (remote): wrong rkey or beyond the buffer.")
        return peer, start

    async def _signal(self, cookie: int, length_bytes: int, deadline_s: float) -> None:
        """The immediate; waits for a receive, as RNR retries do."""
        assert self._peer is not None
        peer = self._wire.lanes[self._peer.qpn]
        await asyncio.wait_for(peer._receives.acquire(), deadline_s)
        peer._arrived.append((cookie, length_bytes))
        peer._wakes.set()


class LoopbackFabric:
    """A gateway's fabric with `classes` of lanes, or a client's without any.

    Attributes:
        healthy: set it to False to pull the device out.
        lent: lanes of the arena that are out; 0 again at the end of every test.
        fail: step name ("lease", "connect", "received", …) to the error it raises.
        pauses: step name to an event that the step waits for.
        calls: how often each step was reached.
    """

    def __init__(
        self,
        wire: Wire,
        classes: Sequence[tuple[int, int]] = (),
        link_layer: LinkLayer = LinkLayer.ETHERNET,
    ) -> None:
        self.info = FabricInfo(
            kind="loopback",
            device="loop0",
            port=1,
            gid=GID,
            gid_index=1,
            lid=0 if link_layer is LinkLayer.ETHERNET else 7,
            link_layer=link_layer,
            mtu_bytes=1024,
            max_message_bytes=2**31,
        )
        self.healthy = True
        self.fail: dict[str, Exception] = {}
        self.pauses: dict[str, asyncio.Event] = {}
        self.calls: Counter[str] = Counter()
        self._wire = wire
        self._free = {length_bytes: count for count, length_bytes in classes}
        self._lengths: dict[LoopbackLane, int] = {}

    @property
    def lent(self) -> int:
        return len(self._lengths)

    def lease(self, need: Need, length_bytes: int) -> LoopbackLane:
        self.step("lease")
        wanted_bytes = length_bytes if need is Need.RECEIVE else 0
        if all(length < wanted_bytes for length in self._free):
            raise ClientError(S3Code.RDMA_TRANSFER_TOO_LARGE)
        for length, count in sorted(self._free.items()):
            if length >= wanted_bytes and count:
                self._free[length] -= 1
                lane = self._open(memoryview(bytearray(length)), need is Need.RECEIVE)
                self._lengths[lane] = length
                return lane
        raise BusyError("All RDMA lanes (rdma.lanes) are in use.")

    def attach(self, buffer: bytearray, *, remote_write: bool) -> LoopbackLane:
        return self._open(memoryview(buffer), remote_write)

    async def close(self) -> None:
        for lane in list(self._lengths):
            await lane.close()

    def returned(self, lane: LoopbackLane) -> None:
        length_bytes = self._lengths.pop(lane, None)
        if length_bytes is not None:
            self._free[length_bytes] += 1

    def step(self, name: str) -> None:
        self.calls[name] += 1
        if name in self.fail:
            raise self.fail[name]

    async def pause(self, name: str) -> None:
        self.step(name)
        if name in self.pauses:
            await self.pauses[name].wait()

    def _open(self, memory: memoryview, remote_write: bool) -> LoopbackLane:
        return LoopbackLane(self._wire, memory, self, remote_write)
