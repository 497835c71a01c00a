"""A client of connections (PROTOCOL sections 3 and 4) that shares no line with the gateway.

One queue pair for many transfers, on Debian's pyverbs, with the standard library's HTTP client and
botocore's signer. The gateway reads and writes this side's memory; nothing is posted here but the
receive that a cookie asks for.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from types import TracebackType
from typing import Self

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from pyverbs_peer import (
    DEADLINE_S,
    PORT,
    TOKEN,
    TRANSPORT_RC,
    Endpoint,
    PeerError,
    Remote,
    ibv,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PyverbsConnection:
    """A connection with `length_bytes` of memory that the gateway may read and write."""

    def __init__(
        self,
        address: tuple[str, int],
        access_key: str,
        secret_key: str,
        device: str,
        gid_index: int,
        length_bytes: int,
    ) -> None:
        self._address = address
        self._credentials = Credentials(access_key, secret_key)
        self._endpoint = Endpoint(device, gid_index, length_bytes, readable=True)
        self._connection = ""

    def __enter__(self) -> Self:
        endpoint = self._endpoint
        token = TOKEN.pack(TRANSPORT_RC, endpoint.qpn, endpoint.gid, 0, 0, 0, PORT, 0).hex()
        headers = {"x-amz-rdma-token": token, "x-amz-rdma-psn": f"{endpoint.psn:06x}"}
        answer = self.ask("POST", "/.s3rdma-rc/connect", headers)
        if answer.status != 200:
            raise PeerError(answer.body.decode(), answer.status)
        status, _, text = answer.headers["x-amz-rdma-reply"].partition(":")
        transport, qpn, gid, *_ = TOKEN.unpack(bytes.fromhex(text))
        if status != "200" or transport != TRANSPORT_RC:
            raise PeerError("connect was answered with no RC token")
        self._connection = answer.headers["x-amz-rdma-session"]
        psn = int(answer.headers["x-amz-rdma-psn"], 16)
        endpoint.connect(Remote(self._connection, qpn, psn, gid, addr=0, rkey=0))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        headers = {"x-amz-rdma-session": self._connection}
        answer = self.ask("POST", "/.s3rdma-rc/disconnect", headers)
        self._endpoint.__exit__(kind, error, trace)
        if answer.status != 204 and error is None:
            raise PeerError("disconnect was not answered with 204", answer.status)

    def put(self, target: str, data: bytes) -> Answer:
        """Store `data`; the gateway reads it out of our memory."""
        self._endpoint.mr.write(data, len(data))
        return self.ask("PUT", target, self.token(len(data)))

    def get(
        self, target: str, length_bytes: int, cookie: int | None = None
    ) -> tuple[Answer, bytes]:
        """What the gateway wrote into our memory; with a cookie, after its immediate came."""
        headers = self.token(length_bytes)
        if cookie is None:
            answer = self.ask("GET", target, headers)
            return answer, self._endpoint.mr.read(length_bytes, 0)
        self._endpoint.post_receive()
        answer = self.ask("GET", target, {**headers, "x-amz-rdma-cookie": f"{cookie:08x}"})
        completion = self._endpoint.completion()
        if completion.opcode != ibv.IBV_WC_RECV_RDMA_WITH_IMM:
            raise PeerError(f"completion opcode {completion.opcode}")
        if socket.ntohl(completion.imm_data) != cookie:
            raise PeerError("the immediate is not the cookie")
        return answer, self._endpoint.mr.read(length_bytes, 0)

    def ask(self, method: str, target: str, headers: Mapping[str, str]) -> Answer:
        """One signed request without a body."""
        host, port = self._address
        request = AWSRequest(method, f"http://{host}:{port}{target}", dict(headers))
        S3SigV4Auth(self._credentials, "s3", "us-east-1").add_auth(request)
        with closing(HTTPConnection(host, port, timeout=DEADLINE_S)) as http:
            http.request(method, target, headers={**dict(request.headers), "Content-Length": "0"})
            reply = http.getresponse()
            names = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(reply.status, names, reply.read())

    def token(self, length_bytes: int) -> dict[str, str]:
        mr = self._endpoint.mr
        return {
            "x-amz-rdma-token": f"rc:{self._connection}:{mr.buf:x}:{length_bytes:x}:{mr.rkey:x}"
        }
