"""Connections that change workers: two servers of one process, which answer with their number."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
from certificates import Authority

from gateway.config import HttpConfig
from gateway.web import handover
from gateway.web.handover import Mailboxes
from gateway.web.render import HttpReply
from gateway.web.server import Server
from gateway.wire.request import RequestHead
from gateway.wire.session_id import session_ids, worker_named

HOST = "127.0.0.1"


class Numbered:
    """A pipeline that answers with its worker's number and what it saw."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen: list[RequestHead] = []

    async def respond(
        self, head: RequestHead, _open_body: Callable[..., object], _request_id: str
    ) -> HttpReply:
        self.seen.append(head)
        body = str(self.number).encode()
        return HttpReply(200, (("content-length", str(len(body))),), body)


@contextmanager
def mailboxes(count: int) -> Iterator[list[Mailboxes]]:
    pairs = [socket.socketpair(type=socket.SOCK_DGRAM) for _ in range(count)]
    sending = [one for one, _ in pairs]
    try:
        yield [Mailboxes(number, inbox, sending) for number, (_, inbox) in enumerate(pairs)]
    finally:
        for pair in pairs:
            for one in pair:
                one.close()


@asynccontextmanager
async def worker(boxes: Mailboxes) -> AsyncIterator[tuple[Numbered, int]]:
    pipeline = Numbered(boxes.own)
    server = Server(HttpConfig(host=HOST, port=0), pipeline, boxes)  # type: ignore[arg-type]
    port = await server.start()
    try:
        yield pipeline, port
    finally:
        await server.stop()


@asynccontextmanager
async def client(port: int) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @property
    def address(self) -> str:
        return self.writer.get_extra_info("sockname")[0]

    async def ask(self, *headers: str, behind: bytes = b"", length: int = 0) -> tuple[int, bytes]:
        lines = ["POST /.hipobj-rc/ready?x=%2F HTTP/1.1", "Host: gw", f"Content-Length: {length}"]
        self.writer.write("\r\n".join([*lines, *headers, "", ""]).encode() + behind)
        return await self.answer()

    async def answer(self) -> tuple[int, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        return int(head.split()[1]), await self.reader.readexactly(length)


def fill(box: socket.socket) -> None:
    """Send what nobody takes, until no more fits."""
    box.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            box.send(bytes(1024))


def session_of(number: int) -> str:
    return f"x-amz-rdma-session: {session_ids(number)()}"


def token_of(number: int) -> str:
    return f"X-Amz-Rdma-Token: rc:{session_ids(number)()}:1000:10:7"


def test_session_ids__many_of_each_worker__32_hex_digits_never_twice_that_name_it():
    for number in (0, 1, 255):
        ids = {session_ids(number)() for _ in range(1000)}
        assert len(ids) == 1000
        assert all(len(one) == 32 and one == one.lower() and int(one, 16) >= 0 for one in ids)
        for value in (next(iter(ids)), f"rc:{next(iter(ids)).upper()}:0:0:0"):
            header = "x-amz-rdma-token" if value.startswith("rc:") else "x-amz-rdma-session"
            assert worker_named(RequestHead("GET", "/", "", ((header, value),))) == number


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("x-amz-rdma-session", "01"),),
        (("x-amz-rdma-session", "zz" * 16),),
        (("x-amz-rdma-token", "0" * 88),),
        (("x-amz-rdma-token", "rc:01"),),
    ],
)
def test_worker_named__no_id_of_ours__none(headers):
    assert worker_named(RequestHead("GET", "/", "", headers)) is None


@pytest.mark.parametrize("naming", [session_of, token_of])
async def test_handover__a_session_of_another_worker__that_one_answers_and_keeps_the_connection(
    naming,
):
    with mailboxes(2) as (first, second):
        async with worker(first) as (near, port), worker(second) as (far, _), client(port) as asker:
            assert await asker.ask() == (200, b"0")
            assert await asker.ask(naming(1), "X-Odd:  a  b ") == (200, b"1")
            head = far.seen[0]
            assert (head.method, head.raw_path, head.raw_query) == (
                "POST",
                "/.hipobj-rc/ready",
                "x=%2F",
            )
            assert head.get("x-odd") == "a  b"
            assert head.remote_ip == asker.address
            assert not head.secure
            assert await asker.ask() == (200, b"1")  # it stays where it went
            assert await asker.ask(naming(0)) == (200, b"0")  # until it is called back
            assert [len(near.seen), len(far.seen)] == [2, 2]


async def test_handover__own_or_unknown_worker__answered_here():
    with mailboxes(2) as (first, second):
        async with worker(first) as (_, port), worker(second), client(port) as asker:
            assert await asker.ask(session_of(0)) == (200, b"0")
            assert await asker.ask(session_of(2)) == (200, b"0")


async def test_handover__64_connections_at_once__each_answered_by_the_owner():
    with mailboxes(2) as (first, second):
        async with worker(first) as (_, port), worker(second):

            async def one(number: int) -> bytes:
                async with client(port) as asker:
                    return (await asker.ask(session_of(number % 2)))[1]

            answers = await asyncio.gather(*(one(number) for number in range(64)))
            assert answers == [b"0", b"1"] * 32


@pytest.mark.parametrize("behind", [b"GET / HTTP/1.1\r\nHost: gw\r\n\r\n", b"GET / HT"])
async def test_handover__more_sent_behind_the_head__busy_and_nothing_lost_in_silence(behind):
    with mailboxes(2) as (first, second):
        async with worker(first) as (_, port), worker(second), client(port) as asker:
            status, body = await asker.ask(session_of(1), behind=behind)
            assert status == 503
            assert b"SlowDown" in body


async def test_handover__a_body_behind_the_head__busy():
    with mailboxes(2) as (first, second):
        async with worker(first) as (_, port), worker(second), client(port) as asker:
            status, body = await asker.ask(session_of(1), behind=b"12345", length=5)
            assert status == 503
            assert b"SlowDown" in body


async def test_handover__the_owner_died__its_successor_answers():
    with mailboxes(2) as (first, second):
        async with worker(first) as (_, port), client(port) as asker:
            pending = asyncio.ensure_future(asker.ask(session_of(1)))
            await asyncio.wait([pending], timeout=0.05)
            assert not pending.done()
            async with worker(second):
                assert await pending == (200, b"1")


async def test_handover__the_owners_inbox_stays_full__busy(monkeypatch):
    monkeypatch.setattr(handover, "_SEND_TIMEOUT_S", 0.02)
    with mailboxes(2) as (first, second):
        first.others[1].setblocking(False)
        fill(first.others[1])
        async with worker(first) as (_, port), client(port) as asker:
            status, body = await asker.ask(session_of(1))
            assert status == 503
            assert b"does not take it" in body
        second.inbox.close()


@asynccontextmanager
async def tls_client(directory: Path, boxes: Mailboxes) -> AsyncIterator[Client]:
    """A client of a worker that serves HTTPS."""
    authority = Authority(directory)
    authority.issue()
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(authority.certificate)
    trusts = ssl.create_default_context(cafile=str(authority.bundle))
    config, pipeline = HttpConfig(host=HOST, port=0), Numbered(boxes.own)
    server = Server(config, pipeline, boxes, tls=serves)  # type: ignore[arg-type]
    reader, writer = await asyncio.open_connection(HOST, await server.start(), ssl=trusts)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        await server.stop()


async def test_handover__over_tls__tunnelled_to_the_owner_and_back(tmp_path):
    with mailboxes(2) as (first, second):
        async with worker(second) as (far, _), tls_client(tmp_path, first) as asker:
            assert await asker.ask() == (200, b"0")
            assert await asker.ask(session_of(1)) == (200, b"1")
            assert await asker.ask() == (200, b"1")
            assert [head.secure for head in far.seen] == [True, True]
            assert far.seen[0].remote_ip == asker.address


async def test_handover__over_tls_and_the_inbox_stays_full__busy_and_no_socket_left(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(handover, "_SEND_TIMEOUT_S", 0.02)
    with mailboxes(2) as (first, second):
        fill(first.others[1])
        async with tls_client(tmp_path, first) as asker:
            before = len(os.listdir("/proc/self/fd"))
            status, body = await asker.ask(session_of(1))
            assert (status, b"does not take it" in body) == (503, True)
            assert len(os.listdir("/proc/self/fd")) <= before
        second.inbox.close()
