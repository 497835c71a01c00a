"""A client of connections that shares no line with the gateway: Debian's pyverbs, one queue pair.

The gateway reads and writes this side's memory; nothing is posted here but the receive that a
cookie asks for.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from pyverbs_peer import MR, Endpoint, PeerError, Remote, ibv
from raw_hipobj import Answer
from rc_client import Address, Desk, Memory, RcClient, address_in, connect, disconnect

_ACCESS = {
    False: ibv.IBV_ACCESS_LOCAL_WRITE | ibv.IBV_ACCESS_REMOTE_READ,
    True: ibv.IBV_ACCESS_LOCAL_WRITE | ibv.IBV_ACCESS_REMOTE_WRITE,
}


class PyverbsClient(RcClient):
    """A client on a pyverbs endpoint."""

    def __init__(self, desk: Desk, welcome: Answer, endpoint: Endpoint) -> None:
        super().__init__(desk, welcome)
        self._endpoint = endpoint

    @asynccontextmanager
    async def lent(self, memory: bytes | bytearray, *, remote_write: bool) -> AsyncIterator[Memory]:
        length = len(memory)
        with closing(MR(self._endpoint.pd, length, _ACCESS[remote_write])) as region:
            region.write(bytes(memory), length)
            yield Memory(region.buf, region.rkey, length)
            if isinstance(memory, bytearray):
                memory[:] = region.read(length, 0)

    def post_receive(self) -> None:
        self._endpoint.post_receive()

    async def received(self, cookie: int) -> None:
        completion = await asyncio.to_thread(self._endpoint.completion)
        if completion.opcode != ibv.IBV_WC_RECV_RDMA_WITH_IMM:
            raise PeerError(f"completion opcode {completion.opcode}")
        if socket.ntohl(completion.imm_data) != cookie:
            raise PeerError("the immediate is not the cookie")


@asynccontextmanager
async def pyverbs_client(
    desk: Desk, device: str, gid_index: int, *, sign: bool = True, leave: bool = True
) -> AsyncIterator[PyverbsClient]:
    """Connect, and disconnect at the end; without `leave` the queue pair is just gone."""
    with Endpoint(device, gid_index, 1, readable=True) as endpoint:
        local = Address(endpoint.qpn, endpoint.psn, endpoint.gid)
        answer = await connect(desk, local, sign=sign)
        if answer.status != 200:
            raise PeerError(answer.body.decode(), answer.status)
        client, remote = PyverbsClient(desk, answer, endpoint), address_in(answer)
        session = client.connection
        endpoint.connect(Remote(session, remote.qpn, remote.psn, remote.gid, addr=0, rkey=0))
        yield client
        if leave:
            assert (await disconnect(desk, session)).status == 204
