"""hipobj-rc-v2's HTTP half, spelled out by hand and signed by botocore: no code of the gateway.

So that tests can say exactly what goes out: wrong, missing, unsigned, in another order.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit
from xml.etree import ElementTree

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

PREPARE, READY, CANCEL = (f"/.hipobj-rc/{name}" for name in ("prepare", "ready", "cancel"))
PROTOCOL = {"x-amz-rdma-protocol": "hipobj-rc-v2"}


def signed(
    method: str,
    url: str,
    headers: Mapping[str, str],
    key: tuple[str, str],
    *,
    unsigned: Sequence[str] = (),
    region: str = "us-east-1",
) -> dict[str, str]:
    """All headers of a body-less request, Host and Authorization included.

    Args:
        key: (access key, secret key).
        unsigned: names among `headers` that are left out of the signature.
    """
    to_sign = {name: value for name, value in headers.items() if name not in unsigned}
    request = AWSRequest(method, url, headers=to_sign, data=b"")
    S3SigV4Auth(Credentials(*key), "s3", region).add_auth(request)
    left_out = {name: headers[name] for name in unsigned}
    return {"host": urlsplit(url).netloc, **dict(request.headers.items()), **left_out}


def rc_token(qpn: int, gid: bytes, *, transport: int = 1, lid: int = 0, port: int = 1) -> str:
    """As stock clients fill it (PROTOCOL section 1): no rkey, no address, no length."""
    fields = (
        transport.to_bytes(1, "little"),
        qpn.to_bytes(4, "little"),
        gid,
        bytes(4 + 8 + 8),
        port.to_bytes(1, "little"),
        lid.to_bytes(2, "little"),
    )
    return b"".join(fields).hex()


@dataclass(frozen=True)
class Answer:
    """A reply: header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str | None:
        return ElementTree.fromstring(self.body).findtext("Code") if self.body else None

    @property
    def message(self) -> str:
        return ElementTree.fromstring(self.body).findtext("Message") or "" if self.body else ""


@dataclass(frozen=True)
class Offer:
    """What PREPARE's 200 says."""

    session: str
    qpn: int
    psn: int
    gid: bytes
    lid: int
    mr_addr: int
    mr_rkey: int

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Offer:
        status, _, token = headers["x-amz-rdma-reply"].partition(":")
        assert status == "200"
        raw = bytes.fromhex(token)
        assert len(raw) == 44
        assert raw[0] == 1
        qpn = int.from_bytes(raw[1:5], "little")
        assert qpn == int(headers["x-amz-rdma-qpn"], 16)
        return cls(
            session=headers["x-amz-rdma-session"],
            qpn=qpn,
            psn=int(headers["x-amz-rdma-psn"], 16),
            gid=raw[5:21],
            lid=int.from_bytes(raw[42:44], "little"),
            mr_addr=int(headers["x-amz-rdma-mr-addr"], 16),
            mr_rkey=int(headers["x-amz-rdma-mr-rkey"], 16),
        )


def prepare_headers(
    *,
    token: str,
    psn: int,
    op: str,
    target: str,
    size: int,
    cookie: int = 0xC0FFEE,
    offset: int | None = None,
) -> dict[str, str]:
    headers = PROTOCOL | {
        "x-amz-rdma-token": token,
        "x-amz-rdma-psn": f"{psn:06X}",  # clients write upper case (PROTOCOL section 5)
        "x-amz-rdma-cookie": f"{cookie:08X}",
        "x-amz-rdma-op": op,
        "x-amz-rdma-target": target,
        "x-amz-rdma-size": str(size),
    }
    return headers | ({} if offset is None else {"x-amz-rdma-offset": str(offset)})


def ready_headers(
    session: str, *, qpn: int, memory: tuple[int, int] | None = None, cookie: int = 0xC0FFEE
) -> dict[str, str]:
    """`memory` is (address, rkey) of the client's buffer."""
    headers = PROTOCOL | {
        "x-amz-rdma-session": session,
        "x-amz-rdma-cookie": f"{cookie:08X}",
        "x-amz-rdma-qpn": f"{qpn:x}",
    }
    if memory is None:
        return headers
    return headers | {
        "x-amz-rdma-mr-addr": f"{memory[0]:x}",
        "x-amz-rdma-mr-rkey": f"{memory[1]:x}",
    }


def cancel_headers(session: str) -> dict[str, str]:
    return PROTOCOL | {"x-amz-rdma-session": session}


def post(
    endpoint: str,
    path: str,
    headers: Mapping[str, str],
    key: tuple[str, str],
    timeout_s: float = 60,
) -> Answer:
    """One signed POST on a connection of its own; blocks."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=timeout_s)
    try:
        every = signed("POST", endpoint + path, headers, key) | {"content-length": "0"}
        connection.request("POST", path, headers=every)
        reply = connection.getresponse()
        names = {name.lower(): value for name, value in reply.getheaders()}
        return Answer(reply.status, names, reply.read())
    finally:
        connection.close()
