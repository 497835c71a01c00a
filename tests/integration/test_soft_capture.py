"""What the soft fabric puts on the wire, as tshark's dissectors see it, and its ICRC as zlib's CRC.

The exchange is in soft_exchange.py. Opcodes: IBTA volume 1, 9.2 (table 38); ICRC: annex A17.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import soft_exchange

WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST_IMM, WRITE_ONLY_IMM = 0x06, 0x07, 0x09, 0x0B
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = range(0x0C, 0x11)
ACKNOWLEDGE = 0x11
ACK, RNR_NAK, NAK = 0, 1, 3  # the syndrome's bits 6 and 5
REMOTE_ACCESS_ERROR = 2
FIELDS = (
    *("_ws.malformed", "_ws.expert.message", "infiniband.bth.opcode", "infiniband.invariant.crc"),
    *("infiniband.aeth.syndrome.opcode", "infiniband.aeth.syndrome.error_code"),
)
ETHERNET_BYTES = 14
UDP_BYTES = 8
IP_BYTES = {"4": 20, "6": 40}
MASKED = {"4": (1, 8, 10, 11), "6": (1, 2, 3, 7)}  # of the IP header; of 6 and of byte 0 below


def needs(holds: bool, what: str) -> None:
    """Skip where this host can't, but never in CI."""
    if not holds:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


@pytest.fixture(scope="module", params=["4", "6"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def capture(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("capture") / f"soft{family}.pcap"
    own_network = ["unshare", "--map-root-user", "--net"]
    able = subprocess.run([*own_network, "ip", "link"], capture_output=True, check=False)
    needs(able.returncode == 0, "this host permits no network namespace (unshare --net)")
    support = Path(soft_exchange.__file__)
    subprocess.run([*own_network, sys.executable, support, path, family], check=True, timeout=60)
    return path


@pytest.fixture(scope="module")
def dissected(capture: Path) -> list[list[str]]:
    """FIELDS of every packet."""
    needs(shutil.which("tshark") is not None, "no tshark on this host (Debian: tshark)")
    asked = [argument for field in FIELDS for argument in ("-e", field)]
    rows = subprocess.run(
        ["tshark", "-n", "-r", capture, "-T", "fields", "-E", "separator=/t", *asked],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return [line.split("\t") for line in rows.stdout.splitlines()]


def test_capture__read_by_tshark__no_packet_is_complained_of(
    dissected: list[list[str]],
) -> None:
    assert [row for row in dissected if row[0] or row[1]] == []
    assert all(row[2] and row[3] for row in dissected), "a packet is no RoCE v2 to tshark"


def test_capture__read_by_tshark__has_every_kind_of_packet(dissected: list[list[str]]) -> None:
    assert {int(row[2]) for row in dissected} == {
        *(WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST_IMM, WRITE_ONLY_IMM),
        *(READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACKNOWLEDGE),
    }
    answers = {(int(row[4]), int(row[5] or 0)) for row in dissected if int(row[2]) == ACKNOWLEDGE}
    assert {(ACK, 0), (NAK, REMOTE_ACCESS_ERROR)} <= answers
    assert RNR_NAK in {kind for kind, _ in answers}


def frames(capture: Path) -> Iterator[bytes]:
    """pcap-savefile(5): a head of 24 bytes, then 16 before each frame."""
    data, at = capture.read_bytes(), 24
    while at < len(data):
        (length,) = struct.unpack_from("<8xI", data, at)
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def icrc(packet: bytes, family: str) -> int:
    """Of an IP packet that ends with it: what routers change counts as ones."""
    masked = bytearray(packet[:-4])
    udp = IP_BYTES[family]
    if family == "6":
        masked[0] |= 0x0F
    for at in (*MASKED[family], udp + 6, udp + 7, udp + UDP_BYTES + 4):
        masked[at] = 0xFF
    return zlib.crc32(masked, zlib.crc32(b"\xff" * 8))


def test_capture__its_icrc__is_zlibs_crc_of_the_masked_packet(capture: Path, family: str) -> None:
    packets = [frame[ETHERNET_BYTES:] for frame in frames(capture)]
    stored = [struct.unpack("<I", packet[-4:])[0] for packet in packets]
    assert stored == [icrc(packet, family) for packet in packets]
    identifications = {packet[4:6] for packet in packets}
    assert family == "6" or len(identifications) > 1, "trains number their packets"
