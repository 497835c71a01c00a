"""Client connections that go from one worker to another, with the request they stand at.

A session lives in one process; its READY may reach any. Then the whole connection moves: the socket
goes to the session's worker as a file descriptor (unix(7), SCM_RIGHTS), its request's head beside
it, and stays there, so that the next request of that connection needs no move. Of a TLS connection
the cipher's state can't move: its worker stays, and tunnels between it and a pair of sockets.

Each worker has an inbox, one end of a pair of datagram sockets made before the workers were; all
hold the other ends. What is sent to a worker that died waits for the one that replaces it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import cast

from aiohttp import web

from gateway.errors import BusyError
from gateway.telemetry.catalogue import HANDOVERS
from gateway.telemetry.measures import Sample
from gateway.web.connection import Connection, Origin
from gateway.web.exchange import Exchange
from gateway.web.tunnel import tunnel
from gateway.wire.request import RequestHead
from gateway.wire.session_id import worker_named

_SEND_TIMEOUT_S = 2.0  # for room in another worker's inbox
_MAX_MESSAGE_BYTES = 192 * 1024  # over any head that the limits let in; below the socket's buffer


@dataclass(frozen=True, slots=True)
class Mailboxes:
    """One worker's view of all inboxes.

    Attributes:
        own: this worker's number.
        inbox: what others send here.
        others: by number, the sending ends, this worker's own among them.
    """

    own: int
    inbox: socket.socket
    others: Sequence[socket.socket]


Adopt = Callable[[socket.socket, bytes, Origin], None]
"""Takes a connection that stands at the request whose head is given."""


class Handover:
    """Passes connections on, and takes those that are passed here. One event loop."""

    def __init__(self, mailboxes: Mailboxes, adopt: Adopt) -> None:
        self._boxes = mailboxes
        self._adopt = adopt
        self._sending = [asyncio.Lock() for _ in mailboxes.others]
        self._count = Counter(given=0, taken=0)

    def start(self) -> None:
        self._boxes.inbox.setblocking(False)
        asyncio.get_running_loop().add_reader(self._boxes.inbox.fileno(), self._take)

    def stop(self) -> None:
        """Take no more; what arrives waits for the worker that comes after."""
        asyncio.get_running_loop().remove_reader(self._boxes.inbox.fileno())

    def metrics(self) -> Iterator[Sample]:
        for direction, count in self._count.items():
            yield HANDOVERS.sample(count, direction)

    async def passed_on(self, exchange: Exchange) -> bool:
        """Give the connection away where its request is another worker's; whether that was done.

        Raises:
            BusyError: it can't move now: its client sent more behind the head, or the owner's
                inbox is full.
        """
        owner = worker_named(exchange.head)
        if owner is None or owner == self._boxes.own or owner >= len(self._boxes.others):
            return False
        await self._pass_on(exchange.request, exchange.head, owner)
        exchange.passed_on = True
        self._count["given"] += 1
        return True

    async def _pass_on(self, request: web.BaseRequest, head: RequestHead, owner: int) -> None:
        connection = cast(Connection, request.protocol)
        transport = connection.transport
        if transport is None or not connection.stands_at_head or not request.content.is_eof():
            raise BusyError("A request that names a session has no body, and nothing behind it.")
        transport.pause_reading()
        origin = Origin(head.remote_ip, head.secure)
        if transport.get_extra_info("sslcontext") is not None:
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    await self._send(owner, theirs.fileno(), head, origin)
            except BaseException:
                ours.close()
                raise
            await tunnel(transport, ours)
            connection.give_up()
        else:
            await self._send(owner, transport.get_extra_info("socket").fileno(), head, origin)
            transport.abort()  # closes this process's descriptor; the owner has its own

    async def _send(self, owner: int, fd: int, head: RequestHead, origin: Origin) -> None:
        box = self._boxes.others[owner]
        note = json.dumps(asdict(origin)).encode()
        message = note + b"\n" + _wire_form(head)
        async with self._sending[owner]:
            while not _sent(box, message, fd):
                await _room(box)

    def _take(self) -> None:
        """Adopt all that waits in the inbox."""
        while True:
            try:
                message, fds, _, _ = socket.recv_fds(self._boxes.inbox, _MAX_MESSAGE_BYTES, 1)
            except BlockingIOError:
                return
            note, _, head = message.partition(b"\n")
            sock = socket.socket(fileno=fds[0])
            sock.setblocking(False)
            self._count["taken"] += 1
            self._adopt(sock, head, Origin(**json.loads(note)))


def _wire_form(head: RequestHead) -> bytes:
    """The head as bytes again: the same target and the same fields, in order."""
    query = f"?{head.raw_query}" if head.raw_query else ""
    lines = [f"{head.method} {head.raw_path}{query} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in head.headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _sent(box: socket.socket, message: bytes, fd: int) -> bool:
    """Whether there was room. Another process's blocking mode does not matter (MSG_DONTWAIT)."""
    try:
        socket.send_fds(box, [message], [fd], socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    return True


async def _room(box: socket.socket) -> None:
    """Wait until a message may fit. Raises BusyError."""
    loop = asyncio.get_running_loop()
    room = asyncio.Event()
    fd = os.dup(box.fileno())  # a watcher of its own: uvloop keeps one for each descriptor
    loop.add_writer(fd, room.set)
    try:
        async with asyncio.timeout(_SEND_TIMEOUT_S):
            await room.wait()
    except TimeoutError as error:
        raise BusyError("The worker that holds this session does not take it; retry.") from error
    finally:
        loop.remove_writer(fd)
        os.close(fd)
