"""The RC token: how a peer of hipobj-rc-v2 says where its queue pair is (PROTOCOL section 1).

======  ====  =========  ============================================
offset  size  field      notes
======  ====  =========  ============================================
0       1     transport  0 = DC, 1 = RC
1       4     qpNum      24-bit QPN
5       16    gid        raw GID bytes, network order
21      4     rkey
25      8     addr
33      8     length
41      1     portNum
42      2     lid        0 on Ethernet
======  ====  =========  ============================================

Integers are little-endian; the text is 88 hex digits, then perhaps ``:<addr hex>:<size hex>``.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

from gateway.errors import ClientError, S3Code

_LAYOUT = struct.Struct("<B I 16s I Q Q B H")
_TEXT = re.compile(r"([0-9A-Fa-f]{88})(?::([0-9A-Fa-f]{1,16}):([0-9A-Fa-f]{1,16}))?")

TOKEN_BYTES = _LAYOUT.size
MAX_QPN = 2**24 - 1


class Transport(IntEnum):
    """The token's first byte."""

    DC = 0
    RC = 1


@dataclass(frozen=True, slots=True)
class RcToken:
    """One side's queue pair and, where `rkey` is set, its memory. Never logged with its rkey.

    Attributes:
        transport: RC here; DC only in tokens that others made.
        qpn: 24 bits.
        gid: 16 raw bytes, network order.
        rkey / addr / length_bytes: the peer's memory, all 0 where it comes in other headers.
        port_num: 0..255.
        lid: 16 bits, 0 on Ethernet.
        suffix: (addr, size in bytes) of the optional ``:addr:size``.
    """

    transport: Transport
    qpn: int
    gid: bytes
    rkey: int = field(default=0, repr=False)
    addr: int = 0
    length_bytes: int = 0
    port_num: int = 0
    lid: int = 0
    suffix: tuple[int, int] | None = None

    @property
    def loopback(self) -> bool:
        """Whether the token is all zeros: the peer sits on our own HCA and has our own GID."""
        return not any(self._pack())

    def format(self) -> str:
        """The token as text, lower case.

        Raises:
            struct.error: a field leaves its range: a caller's bug, never a client's.
        """
        text = self._pack().hex()
        return text if self.suffix is None else f"{text}:{self.suffix[0]:x}:{self.suffix[1]:x}"

    @classmethod
    def parse(cls, text: str, name: str = "x-amz-rdma-token") -> Self:
        """Read a token in any case.

        Args:
            text: the header's value.
            name: where it stood, for the error's text.

        Raises:
            ClientError: InvalidRDMAToken that names the field, and never repeats the token.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise _invalid(
                name, "it must be 88 hex digits, optionally followed by :addr:size in hex"
            )
        transport, qpn, gid, rkey, addr, length_bytes, port_num, lid = _LAYOUT.unpack(
            bytes.fromhex(match[1])
        )
        if transport not in (Transport.DC, Transport.RC):
            raise _invalid(name, "its transport byte must be 00 (DC) or 01 (RC)")
        if qpn > MAX_QPN:
            raise _invalid(name, "its qpNum must fit in 24 bits, little-endian")
        suffix = (int(match[2], 16), int(match[3], 16)) if match[2] else None
        return cls(Transport(transport), qpn, gid, rkey, addr, length_bytes, port_num, lid, suffix)

    def _pack(self) -> bytes:
        return _LAYOUT.pack(
            self.transport,
            self.qpn,
            self.gid,
            self.rkey,
            self.addr,
            self.length_bytes,
            self.port_num,
            self.lid,
        )


def _invalid(name: str, reason: str) -> ClientError:
    return ClientError(
        S3Code.INVALID_RDMA_TOKEN,
        f"{name} is malformed: {reason}.",
        details={"ArgumentName": name},
    )
