"""Packets in the name of a peer that stays silent: past its kernel, on the rig's virtual wire."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv4Address
from pathlib import Path

from roce_packets import PORT, ReadRequest, Wire, read_request

OURS, THEIRS = "eth1", "eth0"
ETH_P_IP = 0x0800
LIMIT_S = 30.0
MARK_BYTES = 8  # as many that are missing at a READ's end are noticed: dataplane_c/src/mark.c
_HEADERS = struct.Struct(">12xH9xB10xHHHH")  # of Ethernet, IPv4 without options, UDP
_UDP = 17


class Forger:
    """What the gateway's queue pairs ask of this side's, and answers that its device never gave.

    Args:
        gateway: its GID, an IPv4 address.

    Attributes:
        wire: from this side to the gateway.
    """

    def __init__(self, gateway: bytes) -> None:
        theirs, ours = (IPv4Address(text) for text in os.environ["RDMA_VM_ADDRS"].split())
        assert IPv4Address(gateway[12:]) == theirs
        self.wire = Wire(ours, theirs)
        self._macs = _mac_of(OURS), _mac_of(THEIRS)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        self._socket.bind((OURS, ETH_P_IP))
        self._socket.settimeout(LIMIT_S)

    def close(self) -> None:
        self._socket.close()

    def asked(self, psn: int) -> ReadRequest:
        """Wait for the READ with this PSN."""
        while True:
            frame = self._socket.recv(65536)
            if len(frame) < _HEADERS.size:
                continue
            kind, protocol, _, port, *_ = _HEADERS.unpack_from(frame)
            if (kind, protocol, port) == (ETH_P_IP, _UDP, PORT):
                request = read_request(frame[_HEADERS.size :])
                if request is not None and request.psn == psn:
                    return request

    def send(self, packets: Iterable[bytes]) -> None:
        for packet in packets:
            self._socket.send(self.wire.frame(packet, *self._macs))


def _mac_of(interface: str) -> bytes:
    text = Path(f"/sys/class/net/{interface}/address").read_text().strip()
    return bytes.fromhex(text.replace(":", ""))
