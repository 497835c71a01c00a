"""A client's fabric in a process of its own, driven by a test as if it were in this one.

The child does what it is told over a socket pair, one message a call, in its own event loop; a call
that waits there (`received`, say) holds up no other. Memory is copied both ways: a test sees the
child's through `PeerLane.memory`, never through the buffer that it attached.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import Buffer

from gateway.config import RdmaConfig
from gateway.dataplane.engine import EngineFabric, open_fabric
from gateway.dataplane.lane import EngineLane
from gateway.dataplane.port import FabricInfo, QpAddress, RemoteBuffer

_Raised = tuple[type[Exception], tuple[Any, ...], dict[str, Any]]
"""Class, arguments and attributes: not every exception survives a pickle."""

STOP_LIMIT_S = 30.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """What a process holds: open files, and bytes of memory that are its own."""

    files: int
    private_bytes: int

    @classmethod
    def now(cls) -> Usage:
        resident, shared = Path("/proc/self/statm").read_text().split()[1:3]
        private_bytes = (int(resident) - int(shared)) * PAGE_BYTES
        return cls(len(os.listdir("/proc/self/fd")), private_bytes)


class _Call(NamedTuple):
    number: int
    target: int  # 0 is the process, else a fabric or lane that it has told of
    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]


class _Answer(NamedTuple):
    number: int
    value: Any = None
    error: _Raised | None = None


@dataclass(frozen=True)
class _FabricRef:
    target: int
    info: FabricInfo


@dataclass(frozen=True)
class _LaneRef:
    target: int
    local: QpAddress
    buffer: RemoteBuffer


class PeerProcess:
    """The test's end. Within `listening`, and in its event loop, fabrics may be opened."""

    def __init__(self, link: Connection, child: subprocess.Popen[bytes]) -> None:
        self._link = link
        self._child = child
        self._numbers = itertools.count()
        self._open: dict[int, asyncio.Future[Any]] = {}

    @contextmanager
    def listening(self) -> Iterator[PeerProcess]:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._link.fileno(), self._take)
        try:
            yield self
        finally:
            loop.remove_reader(self._link.fileno())
            self._open.clear()

    def kill(self) -> None:
        """As SIGKILL does: nothing is closed by anybody."""
        self._child.kill()
        self._child.wait()

    def open(self, config: RdmaConfig) -> PeerFabric:
        ref = self.call(0, "open", config)
        return PeerFabric(self, ref.target, ref.info)

    @property
    def usage(self) -> Usage:
        return Usage(*self.call(0, "usage"))

    def begin(self, target: int, name: str, *args: Any, **options: Any) -> asyncio.Future[Any]:
        """Send a call; its result will come."""
        number = next(self._numbers)
        future = self._open[number] = asyncio.get_running_loop().create_future()
        self._link.send(_Call(number, target, name, args, options))
        return future

    def call(self, target: int, name: str, *args: Any, **options: Any) -> Any:
        """Send a call and block for its result, which must not depend on this event loop."""
        future = self.begin(target, name, *args, **options)
        while not future.done():
            self._take()
        return future.result()

    def _take(self) -> None:
        try:
            answer: _Answer = self._link.recv()
        except (EOFError, ConnectionResetError):
            self._lose()
            return
        future = self._open.pop(answer.number, None)
        if future is None or future.done():
            return
        if answer.error is None:
            future.set_result(answer.value)
        else:
            future.set_exception(_rebuilt(*answer.error))

    def _lose(self) -> None:
        """The child is gone: so are its answers."""
        asyncio.get_running_loop().remove_reader(self._link.fileno())
        for future in self._open.values():
            if not future.done():
                future.set_exception(ConnectionError("the peer's process ended"))
        self._open.clear()


class PeerFabric:
    """What a client does with its fabric, as in ``port.Fabric``."""

    def __init__(self, process: PeerProcess, target: int, info: FabricInfo) -> None:
        self.process = process
        self.info = info
        self._target = target

    def attach(self, buffer: Buffer, *, remote_write: bool, remote_read: bool = False) -> PeerLane:
        """A lane over a copy of `buffer` in the other process."""
        copy = bytearray(buffer)
        options = {"remote_write": remote_write, "remote_read": remote_read}
        return PeerLane(self.process, self.process.call(self._target, "attach", copy, **options))

    async def close(self) -> None:
        await self.process.begin(self._target, "close")


class PeerLane:
    """What a client does with a lane, as in ``port.Lane``."""

    def __init__(self, process: PeerProcess, ref: _LaneRef) -> None:
        self._process = process
        self._target = ref.target
        self.local = ref.local
        self.buffer = ref.buffer

    @property
    def memory(self) -> memoryview:
        """A copy of what is there now."""
        return memoryview(self._process.call(self._target, "memory"))

    @property
    def carrier(self) -> str:
        return str(self._process.call(self._target, "carrier"))

    def connect(self, peer: QpAddress) -> None:
        self._process.call(self._target, "connect", peer)

    def post_receive(self) -> None:
        self._process.call(self._target, "post_receive")

    async def received(self, cookie: int, length_bytes: int | None, deadline_s: float) -> int:
        wait = self._process.begin(self._target, "received", cookie, length_bytes, deadline_s)
        return int(await wait)

    async def write(
        self, length_bytes: int, to: RemoteBuffer, cookie: int, deadline_s: float
    ) -> None:
        await self._process.begin(self._target, "write", length_bytes, to, cookie, deadline_s)

    async def close(self) -> None:
        await self._process.begin(self._target, "close")


@contextmanager
def peer_process() -> Iterator[PeerProcess]:
    """A child that opens fabrics when told to, and ends with its link."""
    ours, theirs = Pipe()
    with theirs:
        child = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
    try:
        with ours:
            yield PeerProcess(ours, child)
        child.wait(STOP_LIMIT_S)
    finally:
        child.kill()
        child.wait()


class _Child:
    """The other end: calls in, answers out, until the link closes."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self._targets: dict[int, Any] = {0: self}
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.get_running_loop().create_future()
        self.open = partial(open_fabric, arena=False)
        self.usage = Usage.now

    async def run(self) -> None:
        asyncio.get_running_loop().add_reader(self._link.fileno(), self._take)
        await self._over

    def _take(self) -> None:
        try:
            call: _Call = self._link.recv()
        except EOFError:
            asyncio.get_running_loop().remove_reader(self._link.fileno())
            if not self._over.done():
                self._over.set_result(None)
            return
        task = asyncio.ensure_future(self._answer(call))
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        """An answer that could not be sent must not be waited for: it ends the process."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not self._over.done():
            self._over.set_exception(error)

    async def _answer(self, call: _Call) -> None:
        try:
            answer = _Answer(call.number, self._told(await self._do(call)))
        except Exception as error:  # noqa: BLE001 - the test's to judge
            answer = _Answer(call.number, error=_described(error))
        self._link.send(answer)

    async def _do(self, call: _Call) -> Any:
        value = getattr(self._targets[call.target], call.name)
        if callable(value):
            value = value(*call.args, **call.options)
        if inspect.isawaitable(value):
            value = await value
            if call.name == "close":
                del self._targets[call.target]
        return value

    def _told(self, value: Any) -> Any:
        """What can be sent: of fabrics and lanes a reference, of memory a copy."""
        match value:
            case EngineFabric():
                return _FabricRef(self._register(value), value.info)
            case EngineLane():
                return _LaneRef(self._register(value), value.local, value.buffer)
            case memoryview():
                return bytes(value)
            case _:
                return value

    def _register(self, value: object) -> int:
        number = next(self._numbers)
        self._targets[number] = value
        return number


def _described(error: Exception) -> _Raised:
    attributes = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in vars(error).items()
    }
    return type(error), error.args, attributes


def _rebuilt(kind: type[Exception], args: tuple[Any, ...], attributes: dict[str, Any]) -> Exception:
    """The child's exception, without a second run of its constructor."""
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(attributes)
    return error


async def _serve(link: Connection) -> None:
    await _Child(link).run()


if __name__ == "__main__":
    # Pickles name the classes of this file by its module, not by __main__.
    import fabric_peer

    with Connection(int(sys.argv[1])) as opened:
        asyncio.run(fabric_peer._serve(opened))
