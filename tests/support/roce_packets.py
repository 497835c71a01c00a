"""RoCE v2 packets as bytes (IBTA volume 1 chapter 9 and annex A17), for peers that misbehave.

Of IPv4 and the reliable connection only, and no line of them is the gateway's.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from ipaddress import IPv4Address

PORT = 4791
MTU_BYTES = 4096
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK = (
    0x0C,
    0x0D,
    0x0E,
    0x0F,
    0x10,
    0x11,
)
_WITH_AETH = {READ_FIRST, READ_LAST, READ_ONLY, ACK}
_BTH = struct.Struct(">BBHII")  # opcode, flags, P_Key, destination QP, A and PSN
_RETH = struct.Struct(">QII")
_IPV4 = struct.Struct(">BBHHHBBH4s4s")
_UDP = struct.Struct(">HHHH")
_PSN_MASK = 2**24 - 1


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What a READ asks for."""

    psn: int
    addr: int
    rkey: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class Wire:
    """From one address to another; both ends use RoCE's port."""

    source: IPv4Address
    target: IPv4Address

    def packet(self, opcode: int, qpn: int, psn: int, payload: bytes = b"") -> bytes:
        """The UDP payload: BTH, AETH where the opcode has one, payload and pad, ICRC."""
        pad = -len(payload) % 4
        head = _BTH.pack(opcode, pad << 4, 0xFFFF, qpn, psn & _PSN_MASK)
        aeth = b"\x1f\0\0\0" if opcode in _WITH_AETH else b""  # ACK, no credit limit
        body = head + aeth + payload + bytes(pad)
        return body + self._icrc(body)

    def frame(self, packet: bytes, source_mac: bytes, target_mac: bytes) -> bytes:
        """The Ethernet frame with all that is around such a UDP payload."""
        length = _UDP.size + len(packet)
        ip = self._ip(length, tos=0, ttl=64, checksum=0)
        words = struct.unpack(">10H", ip)
        total = sum(words)
        folded = (total & 0xFFFF) + (total >> 16)  # RFC 1071; ten words carry once
        ip = self._ip(length, tos=0, ttl=64, checksum=~folded & 0xFFFF)
        udp = _UDP.pack(PORT, PORT, length, 0)  # no checksum, as RoCE has it
        return target_mac + source_mac + b"\x08\x00" + ip + udp + packet

    def _ip(self, length: int, *, tos: int, ttl: int, checksum: int) -> bytes:
        return _IPV4.pack(
            0x45,
            tos,
            _IPV4.size + length,
            0,
            0x4000,  # do not fragment
            ttl,
            17,
            checksum,
            self.source.packed,
            self.target.packed,
        )

    def _icrc(self, body: bytes) -> bytes:
        """Over what no router changes; what one may change counts as ones."""
        length = _UDP.size + len(body) + 4
        ip = self._ip(length, tos=0xFF, ttl=0xFF, checksum=0xFFFF)
        udp = _UDP.pack(PORT, PORT, length, 0xFFFF)
        masked = ip + udp + body[:4] + b"\xff" + body[5:]
        return zlib.crc32(masked, zlib.crc32(b"\xff" * 8)).to_bytes(4, "little")


def read_request(packet: bytes) -> ReadRequest | None:
    """The READ in a packet, if it is one."""
    opcode, _, _, _, psn = _BTH.unpack_from(packet)
    if opcode != READ_REQUEST:
        return None
    return ReadRequest(psn & _PSN_MASK, *_RETH.unpack_from(packet, _BTH.size))


def read_responses(wire: Wire, qpn: int, request: ReadRequest, data: bytes) -> list[bytes]:
    """The packets that answer a READ with `data`."""
    pieces = [data[at : at + MTU_BYTES] for at in range(0, len(data), MTU_BYTES)]
    last = len(pieces) - 1

    def opcode(number: int) -> int:
        if last == 0:
            return READ_ONLY
        return READ_FIRST if number == 0 else READ_LAST if number == last else READ_MIDDLE

    return [
        wire.packet(opcode(number), qpn, request.psn + number, piece)
        for number, piece in enumerate(pieces)
    ]
