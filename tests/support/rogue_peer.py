"""A connection's peer made of a UDP socket: it answers READs when it likes, and after it is gone.

It signs its requests as everybody does; what is wrong with it comes by RoCE.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address

from dropped_request import DroppedRequest
from gateway_process import GatewayProcess
from raw_hipobj import Answer
from rc_client import UNSIGNED_PAYLOAD, Address, Desk, address_in, connect
from roce_packets import ACK, PORT, ReadRequest, Wire, read_request, read_responses

_IP_PMTUDISC_DO = 2  # of IP_MTU_DISCOVER, ip(7): the IPv4 identification, which ICRC covers, is 0
_IP_MTU_DISCOVER = 10
FIRST_READ_S = 30.0
_QUEUE_BYTES = 4 * 1024 * 1024


class RoguePeer:
    """One queue pair's worth of packets.

    Args:
        sock: bound to RoCE's port of an address of its own.
        canary: repeated, what its memory holds wherever a READ looks.
    """

    def __init__(self, desk: Desk, sock: socket.socket, canary: bytes) -> None:
        self._desk = desk
        self._socket = sock
        self._canary = canary
        self._source = IPv4Address(sock.getsockname()[0])
        self.requests: asyncio.Queue[ReadRequest] = asyncio.Queue()
        asyncio.get_running_loop().add_reader(sock.fileno(), self._take)

    async def connect(self) -> None:
        """As another queue pair; what was asked of the last one is forgotten."""
        gid = IPv6Address(f"::ffff:{self._source}").packed
        local = Address(random.randrange(2, 2**24 - 1), random.randrange(1, 2**24), gid)
        while not self.requests.empty():
            self.requests.get_nowait()
        answer = await connect(self._desk, local)
        assert answer.status == 200, answer.body
        self._gateway = address_in(answer)
        self.connection = answer.headers["x-amz-rdma-session"]
        self._wire = Wire(self._source, IPv4Address(self._gateway.gid[12:]))

    def token(self, size_bytes: int) -> str:
        return f"rc:{self.connection}:10000:{size_bytes:x}:1234"

    def content(self, addr: int, length_bytes: int) -> bytes:
        """What its memory holds there."""
        start = addr % len(self._canary)
        return (self._canary * (length_bytes // len(self._canary) + 2))[start:][:length_bytes]

    def answers(self, request: ReadRequest) -> list[bytes]:
        data = self.content(request.addr, request.length_bytes)
        return read_responses(self._wire, self._gateway.qpn, request, data)

    def send(self, packets: list[bytes]) -> None:
        target = (str(self._wire.target), PORT)
        for packet in packets:
            self._socket.sendto(packet, target)

    async def put(self, path: str, size_bytes: int) -> Answer:
        """A PUT in which it does all that a good peer does."""
        headers = UNSIGNED_PAYLOAD | {"x-amz-rdma-token": self.token(size_bytes)}
        serving = asyncio.ensure_future(self._serve())
        try:
            return await asyncio.to_thread(self._desk.ask, "PUT", path, headers)
        finally:
            serving.cancel()

    async def _serve(self) -> None:
        while True:
            self.send(self.answers(await self.requests.get()))

    async def spoil(self, path: str, size_bytes: int, choice: random.Random) -> int:
        """A PUT that is cut off half-way, and then answered all the same.

        Returns:
            How many packets came late.
        """
        request = await DroppedRequest.begin(self._desk, "PUT", path, self.token(size_bytes))
        late = self.answers(await asyncio.wait_for(self.requests.get(), FIRST_READ_S))
        while not self.requests.empty():
            late += self.answers(self.requests.get_nowait())
        early = choice.randrange(len(late))
        self.send(late[:early])
        request.drop()
        for _ in range(4):  # before the gateway knows, while it is told, and after it
            self.send(late[early:])
            await asyncio.sleep(choice.uniform(0, 0.004))
            while not self.requests.empty():
                late += self.answers(self.requests.get_nowait())
        psn = self._gateway.psn + choice.randrange(2**10)
        self.send([self._wire.packet(ACK, self._gateway.qpn, psn)])
        return 4 * (len(late) - early)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()

    def _take(self) -> None:
        while True:
            try:
                packet = self._socket.recv(65536)
            except BlockingIOError:
                return
            if (request := read_request(packet)) is not None:
                self.requests.put_nowait(request)


@contextmanager
def rogue_peer(gateway: GatewayProcess, address: str, canary: bytes) -> Iterator[RoguePeer]:
    """A peer at `address`, not connected yet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_BYTES)
        sock.bind((address, PORT))
        sock.setblocking(False)
        peer = RoguePeer(Desk.of(gateway), sock, canary)
        try:
            yield peer
        finally:
            peer.close()
