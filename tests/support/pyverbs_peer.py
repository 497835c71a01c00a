"""A hipobj-rc-v2 client that shares no line with the gateway: the independent peer.

Written from the protocol alone (three POSTs, WRITE_WITH_IMM both ways), on Debian's pyverbs, the
standard library's HTTP client and botocore's signer. A mistake that the gateway's client and server
make together, in the token's layout or the immediate's byte order, say, shows here.
"""

from __future__ import annotations

import secrets
import select
import socket
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import TracebackType
from typing import Any, Self

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"


def _load_pyverbs() -> None:
    """Import Debian's pyverbs, and nothing else of Debian's, into this virtual environment."""
    spec = PathFinder.find_spec("pyverbs", [DEBIAN_PACKAGES])
    if spec is None or spec.loader is None:
        raise ImportError("no pyverbs: apt-get install python3-pyverbs")
    module = module_from_spec(spec)
    sys.modules["pyverbs"] = module
    spec.loader.exec_module(module)


_load_pyverbs()

# Found only once the loader above has run.
from pyverbs import enums as ibv  # noqa: E402
from pyverbs.addr import GID, AHAttr, GlobalRoute  # noqa: E402
from pyverbs.cq import CQ  # noqa: E402
from pyverbs.device import Context  # noqa: E402
from pyverbs.mr import MR  # noqa: E402
from pyverbs.pd import PD  # noqa: E402
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr  # noqa: E402
from pyverbs.wr import SGE, RecvWR, SendWR  # noqa: E402

PORT = 1
PROTOCOL = "hipobj-rc-v2"
TOKEN = struct.Struct("<BI16sIQQBH")  # transport, qpNum, gid, rkey, addr, length, portNum, lid
TRANSPORT_RC = 1
LOOPBACK_TOKEN = "0" * 2 * TOKEN.size
DEADLINE_S = 60.0
POLL_INTERVAL_S = 0.001
BUSY = 503
BUSY_PAUSE_S = 0.05


class PeerError(Exception):
    """The gateway refused, or the wire failed. `status` is HTTP's, 0 where there was none."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Habits:
    """What clients in the field do, each of it allowed.

    Attributes:
        uppercase: token, cookie and PSN in capital hex digits.
        bare_token: rkey, addr, length and lid of the token left at 0, as stock hipObject does.
        loopback_token: 88 zeros, "the same HCA as yours"; the QPN then comes in a header.
        late_receive_s: post a GET's receive only after READY has waited this long unanswered.
    """

    uppercase: bool = False
    bare_token: bool = False
    loopback_token: bool = False
    late_receive_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Remote:
    """The gateway's side of a session, from PREPARE's reply."""

    session: str
    qpn: int
    psn: int
    gid: bytes
    addr: int
    rkey: int


@dataclass(frozen=True, slots=True)
class Transferred:
    """READY's reply, and for a GET the bytes that came."""

    length_bytes: int
    etag: str
    data: bytes = b""


class Endpoint:
    """One RC queue pair and `length_bytes` of registered memory on an RDMA device."""

    def __init__(
        self, device: str, gid_index: int, length_bytes: int, *, readable: bool = False
    ) -> None:
        self._gid_index = gid_index
        self._resources = ExitStack()  # closed last first: QP, CQ, MR, PD, device
        context = self._own(Context(name=device))
        self.pd = self._own(PD(context))
        access = ibv.IBV_ACCESS_LOCAL_WRITE | ibv.IBV_ACCESS_REMOTE_WRITE
        access |= ibv.IBV_ACCESS_REMOTE_READ if readable else 0
        self.mr = self._own(MR(self.pd, length_bytes, access))
        self._cq = self._own(CQ(context, 4))
        capacity = QPCap(max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(qp_type=ibv.IBV_QPT_RC, scq=self._cq, rcq=self._cq, cap=capacity)
        self._qp = self._own(QP(self.pd, init))
        self._mtu = context.query_port(PORT).active_mtu
        self.gid = bytes.fromhex(str(context.query_gid(PORT, gid_index)).replace(":", ""))
        self.qpn = int(self._qp.qp_num)
        self.psn = 1 + secrets.randbelow((1 << 24) - 1)
        attributes = QPAttr(port_num=PORT)
        attributes.qp_access_flags = access
        self._qp.to_init(attributes)

    def _own(self, resource: Any) -> Any:
        return self._resources.enter_context(closing(resource))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    def connect(self, remote: Remote) -> None:
        """INIT → RTR → RTS: rq_psn is the gateway's PSN, sq_psn our own."""
        route = GlobalRoute(
            dgid=GID(remote.gid.hex(":", 2)), sgid_index=self._gid_index, hop_limit=64
        )
        attributes = QPAttr(port_num=PORT)
        attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=PORT)
        attributes.path_mtu = self._mtu
        attributes.dest_qp_num = remote.qpn
        attributes.rq_psn = remote.psn
        attributes.sq_psn = self.psn
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        attributes.min_rnr_timer = 12
        attributes.timeout = 14
        attributes.retry_cnt = attributes.rnr_retry = 7
        self._qp.to_rtr(attributes)
        self._qp.to_rts(attributes)

    def post_receive(self) -> None:
        """A receive without an SGE: an immediate needs no buffer.

        RecvWR's constructor insists on one; an object that skipped it is the zeroed ibv_recv_wr.
        """
        self._qp.post_recv(RecvWR.__new__(RecvWR))

    def post_write(self, remote: Remote, cookie: int) -> None:
        """All of our memory into the gateway's, announced by the cookie."""
        work = SendWR(
            opcode=ibv.IBV_WR_RDMA_WRITE_WITH_IMM,
            num_sge=1,
            imm_data=socket.htonl(cookie),
            sg=[SGE(self.mr.buf, self.mr.length, self.mr.lkey)],
            send_flags=ibv.IBV_SEND_SIGNALED,
        )
        work.set_wr_rdma(remote.rkey, remote.addr)
        self._qp.post_send(work)

    def completion(self) -> Any:
        """The next work completion; PeerError where it failed or none came in time.

        Polled, not waited for: pyverbs' event wait has no timeout, and a lost packet has no event.
        """
        deadline_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline_s:
            count, completions = self._cq.poll(1)
            if count:
                if completions[0].status != ibv.IBV_WC_SUCCESS:
                    raise PeerError(f"completion status {completions[0].status}")
                return completions[0]
            time.sleep(POLL_INTERVAL_S)
        raise PeerError(f"no completion within {DEADLINE_S:g} s")


class PyverbsPeer:
    """PUT and GET over hipobj-rc-v2, a new queue pair for every transfer."""

    def __init__(
        self,
        address: tuple[str, int],
        access_key: str,
        secret_key: str,
        device: str,
        gid_index: int,
        habits: Habits = Habits(),
    ) -> None:
        self._host, self._port = address
        self._credentials = Credentials(access_key, secret_key)
        self._device, self._gid_index, self._habits = device, gid_index, habits

    def put(self, target: str, data: bytes) -> Transferred:
        """Send `data` to `/bucket/key`."""
        with Endpoint(self._device, self._gid_index, len(data)) as endpoint:
            endpoint.mr.write(data, len(data))
            cookie = self._cookie()
            remote = self._prepare(endpoint, "PUT", target, cookie)
            endpoint.connect(remote)
            with closing(self._ready(endpoint, remote, cookie)) as http:
                endpoint.post_write(remote, cookie)
                endpoint.completion()
                return self._transferred(http, cookie)

    def get(self, target: str, size_bytes: int, offset_bytes: int = 0) -> Transferred:
        """Receive `size_bytes` of `/bucket/key` from `offset_bytes` on."""
        with Endpoint(self._device, self._gid_index, size_bytes) as endpoint:
            cookie = self._cookie()
            remote = self._prepare(endpoint, "GET", target, cookie, offset_bytes)
            endpoint.connect(remote)
            late_s = self._habits.late_receive_s
            if not late_s:
                endpoint.post_receive()
            with closing(self._ready(endpoint, remote, cookie)) as http:
                if late_s:
                    _require_silence(http, late_s)
                    endpoint.post_receive()
                completion = endpoint.completion()
                if completion.opcode != ibv.IBV_WC_RECV_RDMA_WITH_IMM:
                    raise PeerError(f"completion opcode {completion.opcode}")
                if socket.ntohl(completion.imm_data) != cookie:
                    raise PeerError("the immediate is not the cookie")
                reply = self._transferred(http, cookie)
            data = endpoint.mr.read(size_bytes, 0)
        return Transferred(reply.length_bytes, reply.etag, data)

    def _cookie(self) -> int:
        return 1 + secrets.randbelow((1 << 32) - 1)

    def _hex(self, value: int, digits: int) -> str:
        return f"{value:0{digits}{'X' if self._habits.uppercase else 'x'}}"

    def _token(self, endpoint: Endpoint) -> str:
        if self._habits.loopback_token:
            return LOOPBACK_TOKEN
        mr = endpoint.mr
        memory = (0, 0, 0) if self._habits.bare_token else (mr.rkey, mr.buf, mr.length)
        token = TOKEN.pack(TRANSPORT_RC, endpoint.qpn, endpoint.gid, *memory, PORT, 0).hex()
        return token.upper() if self._habits.uppercase else token

    def _prepare(
        self, endpoint: Endpoint, op: str, target: str, cookie: int, offset_bytes: int = 0
    ) -> Remote:
        headers = {
            "x-amz-rdma-token": self._token(endpoint),
            "x-amz-rdma-psn": self._hex(endpoint.psn, 6),
            "x-amz-rdma-cookie": self._hex(cookie, 8),
            "x-amz-rdma-op": op,
            "x-amz-rdma-target": target,
            "x-amz-rdma-size": str(endpoint.mr.length),
        }
        if offset_bytes:
            headers["x-amz-rdma-offset"] = str(offset_bytes)
        if self._habits.loopback_token:
            headers["x-amz-rdma-qpn"] = self._hex(endpoint.qpn, 1)
        reply = self._prepared(headers)
        status, _, token = reply["x-amz-rdma-reply"].replace(" ", ":").partition(":")
        transport, qpn, gid, *_ = TOKEN.unpack(bytes.fromhex(token[: 2 * TOKEN.size]))
        if status != "200" or transport != TRANSPORT_RC:
            raise PeerError("PREPARE answered with no RC token")
        if int(reply["x-amz-rdma-qpn"], 16) != qpn:
            raise PeerError("the token's qpNum and x-amz-rdma-qpn differ")
        return Remote(
            session=reply["x-amz-rdma-session"],
            qpn=qpn,
            psn=int(reply["x-amz-rdma-psn"], 16),
            gid=gid,
            addr=int(reply["x-amz-rdma-mr-addr"], 16),
            rkey=int(reply["x-amz-rdma-mr-rkey"], 16),
        )

    def _prepared(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """PREPARE's reply; where the gateway is busy, as lanes rest, a good client comes again."""
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                with closing(self._post("/.hipobj-rc/prepare", headers)) as http:
                    return _accepted(http.getresponse())
            except PeerError as error:
                if error.status != BUSY or time.monotonic() > deadline_s:
                    raise
            time.sleep(BUSY_PAUSE_S)

    def _ready(self, endpoint: Endpoint, remote: Remote, cookie: int) -> HTTPConnection:
        """READY on a connection of its own; its reply comes after the data."""
        headers = {
            "x-amz-rdma-session": remote.session,
            "x-amz-rdma-cookie": self._hex(cookie, 8),
            "x-amz-rdma-qpn": self._hex(endpoint.qpn, 1),
            "x-amz-rdma-mr-addr": self._hex(endpoint.mr.buf, 1),
            "x-amz-rdma-mr-rkey": self._hex(endpoint.mr.rkey, 1),
        }
        return self._post("/.hipobj-rc/ready", headers)

    def _transferred(self, http: HTTPConnection, cookie: int) -> Transferred:
        reply = _accepted(http.getresponse())
        if int(reply["x-amz-rdma-cookie"], 16) != cookie:
            raise PeerError("READY echoed another cookie")
        return Transferred(
            int(reply["x-amz-rdma-bytes-transferred"]), reply["x-amz-rdma-etag"].strip('"')
        )

    def _post(self, path: str, headers: Mapping[str, str]) -> HTTPConnection:
        """Send one signed POST without a body; the caller reads the reply and closes."""
        url = f"http://{self._host}:{self._port}{path}"
        request = AWSRequest("POST", url, {"x-amz-rdma-protocol": PROTOCOL, **headers})
        S3SigV4Auth(self._credentials, "s3", "us-east-1").add_auth(request)
        http = HTTPConnection(self._host, self._port, timeout=DEADLINE_S)
        http.request("POST", path, headers={**dict(request.headers), "Content-Length": "0"})
        return http


def _accepted(response: HTTPResponse) -> Mapping[str, str]:
    """A 200's headers, by lower-case name; PeerError with the gateway's reason otherwise."""
    body = response.read().decode()
    if response.status != 200:
        raise PeerError(f"{response.status}: {body}", response.status)
    headers = {name.lower(): value for name, value in response.getheaders()}
    if headers.get("x-amz-rdma-protocol") != PROTOCOL:
        raise PeerError("the reply does not echo the protocol")
    return headers


def _require_silence(http: HTTPConnection, wait_s: float) -> None:
    """No reply may come while the gateway's write waits for a receive (RNR)."""
    readable, _, _ = select.select([http.sock], [], [], wait_s)
    if readable:
        raise PeerError("READY was answered before the data could have arrived")
