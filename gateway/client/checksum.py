"""CRC-64/NVME, the checksum that says a whole object is the same at both ends.

awscrt computes it at several GB/s, so that it costs a transfer little even over memory.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable

from awscrt import checksums as crt
from typing_extensions import Buffer

from gateway.wire.checksums import Algorithm, decode_base64

HEADER = Algorithm.CRC64NVME.header

_INLINE_BYTES = 256 * 1024
"""Shorter runs are summed at once: a thread costs more."""


async def crc64nvme(data: memoryview) -> int:
    """The checksum of `data`, which nobody may write to meanwhile."""
    if len(data) <= _INLINE_BYTES:
        return _sum(data)
    return await asyncio.to_thread(_sum, data)


def _sum(data: memoryview) -> int:
    total: int = crt.crc64nvme(data)
    return total


def continued(checksum: int, data: Buffer) -> int:
    """The checksum of what `checksum` is of, followed by `data`."""
    total: int = crt.crc64nvme(data, checksum)
    return total


def joined(parts: Iterable[tuple[int, int]]) -> int:
    """The checksum of the whole from (checksum, length in bytes) of its parts, in order."""
    total = 0
    for checksum, length_bytes in parts:
        total = crt.combine_crc64nvme(total, checksum, length_bytes)
    return total


def to_text(checksum: int) -> str:
    """Base64 of the eight bytes, big-endian: S3's form."""
    return base64.b64encode(checksum.to_bytes(8, "big")).decode()


def declared(checksum: int | None) -> dict[str, str]:
    """The header that states it, where it is known."""
    return {} if checksum is None else {HEADER: to_text(checksum)}


def from_text(text: str | None) -> int | None:
    """The checksum in S3's form; None where there is none or it is not one."""
    raw = decode_base64(text or "", Algorithm.CRC64NVME.length_bytes)
    return None if raw is None else int.from_bytes(raw, "big")
