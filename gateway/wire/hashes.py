"""S3's checksum algorithms at work: a running hash for each, and CRCs put together from parts.

hashlib releases the GIL for anything longer than 2 KiB, awscrt for more than 64 KiB; its CRCs take
20 to 90 µs for a MiB, as the processor has it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from awscrt import checksums as crt

from gateway.wire.checksums import Algorithm

Data = bytes | bytearray | memoryview

_CRC: Mapping[Algorithm, Callable[[Data, int], int]] = MappingProxyType(
    {
        Algorithm.CRC32: crt.crc32,
        Algorithm.CRC32C: crt.crc32c,
        Algorithm.CRC64NVME: crt.crc64nvme,
    }
)
COMBINE: Mapping[Algorithm, Callable[[int, int, int], int]] = MappingProxyType(
    {
        Algorithm.CRC32: crt.combine_crc32,
        Algorithm.CRC32C: crt.combine_crc32c,
        Algorithm.CRC64NVME: crt.combine_crc64nvme,
    }
)
"""The CRC of two runs of bytes: (of the first, of the second, length of the second in bytes)."""


class Hash(Protocol):
    """The part of hashlib's objects that is used here."""

    def update(self, data: Data, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc:
    """A running CRC with hashlib's face."""

    __slots__ = ("_algorithm", "_value")

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._value = 0

    def update(self, data: Data, /) -> None:
        self._value = _CRC[self._algorithm](data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._algorithm.length_bytes, "big")


def new_hash(algorithm: Algorithm) -> Hash:
    """A running hash that has seen nothing yet."""
    match algorithm:
        case Algorithm.SHA1:
            return hashlib.sha1(usedforsecurity=False)
        case Algorithm.SHA256:
            return hashlib.sha256()
        case _:
            return _Crc(algorithm)


def crc64nvme(data: Data) -> int:
    """CRC-64/NVME of one run of bytes."""
    return _CRC[Algorithm.CRC64NVME](data, 0)


def encode(digest: bytes) -> str:
    """Base64 as S3's headers and elements carry it."""
    return base64.b64encode(digest).decode("ascii")
