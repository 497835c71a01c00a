"""Hashes of bytes as they pass, and checksums put together from parts.

hashlib and zlib release the GIL for anything longer than 2 KiB, so `Digester.update` is worth
calling from a worker thread; the CRCs of awscrt take about 20 µs per MiB.

Multipart rules: https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from awscrt import checksums as crt

from gateway.wire.checksums import Algorithm

_Data = bytes | bytearray | memoryview

_CRC: Mapping[Algorithm, Callable[[_Data, int], int]] = MappingProxyType(
    {
        Algorithm.CRC32: crt.crc32,
        Algorithm.CRC32C: crt.crc32c,
        Algorithm.CRC64NVME: crt.crc64nvme,
    }
)
_COMBINE: Mapping[Algorithm, Callable[[int, int, int], int]] = MappingProxyType(
    {
        Algorithm.CRC32: crt.combine_crc32,
        Algorithm.CRC32C: crt.combine_crc32c,
        Algorithm.CRC64NVME: crt.combine_crc64nvme,
    }
)


class _Hash(Protocol):
    """The part of hashlib's objects that is used here."""

    def update(self, data: _Data, /) -> None: ...

    def digest(self) -> bytes: ...


class _Crc:
    """A running CRC with hashlib's face."""

    __slots__ = ("_algorithm", "_value")

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._value = 0

    def update(self, data: _Data, /) -> None:
        self._value = _CRC[self._algorithm](data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._algorithm.length_bytes, "big")


def _new_hash(algorithm: Algorithm) -> _Hash:
    match algorithm:
        case Algorithm.SHA1:
            return hashlib.sha1(usedforsecurity=False)
        case Algorithm.SHA256:
            return hashlib.sha256()
        case _:
            return _Crc(algorithm)


class Digester:
    """MD5, any of S3's checksums, and optionally SHA-256, over one run of bytes.

    Not thread-safe: one `update` at a time, from whichever thread.

    Args:
        algorithms: the checksums to compute.
        md5: compute the MD5 that ETag and Content-MD5 need (the dearest of all hashes).
        sha256: compute the payload hash of SigV4; shared with Algorithm.SHA256 where both are
            asked for.
    """

    __slots__ = ("_hashes", "_md5", "_running", "_sha256", "size_bytes")

    def __init__(
        self, algorithms: Iterable[Algorithm] = (), *, md5: bool = True, sha256: bool = False
    ) -> None:
        self.size_bytes = 0
        self._hashes = {algorithm: _new_hash(algorithm) for algorithm in algorithms}
        self._md5 = hashlib.md5(usedforsecurity=False) if md5 else None
        self._sha256 = self._hashes.get(Algorithm.SHA256)
        if sha256 and self._sha256 is None:
            self._sha256 = hashlib.sha256()
        running = [self._md5, self._sha256, *self._hashes.values()]
        self._running: tuple[_Hash, ...] = tuple(
            {id(one): one for one in running if one is not None}.values()
        )

    def update(self, data: _Data) -> None:
        """Take in the next bytes."""
        self.size_bytes += len(data)
        for running in self._running:
            running.update(data)

    @property
    def md5(self) -> bytes:
        """16 bytes. Raises ValueError where MD5 was not asked for: a caller's bug."""
        if self._md5 is None:
            raise ValueError("this Digester was made without md5")
        return self._md5.digest()

    @property
    def sha256(self) -> bytes:
        """32 bytes. Raises ValueError where SHA-256 was not asked for: a caller's bug."""
        if self._sha256 is None:
            raise ValueError("this Digester was made without sha256")
        return self._sha256.digest()

    @property
    def checksums(self) -> dict[Algorithm, str]:
        """Base64 of each checksum asked for."""
        return {name: encode(running.digest()) for name, running in self._hashes.items()}


def encode(digest: bytes) -> str:
    """Base64 as S3's headers and elements carry it."""
    return base64.b64encode(digest).decode("ascii")


def composite_etag(part_md5s: Sequence[bytes]) -> str:
    """The ETag of a multipart object: MD5 over the parts' MD5s, a dash, the number of parts."""
    joined = hashlib.md5(b"".join(part_md5s), usedforsecurity=False)
    return f"{joined.hexdigest()}-{len(part_md5s)}"


def composite_checksum(algorithm: Algorithm, parts: Sequence[str]) -> str:
    """The COMPOSITE checksum: the algorithm over the parts' raw digests, then ``-N``.

    Args:
        algorithm: any but CRC64NVME, which S3 gives for full objects only.
        parts: base64, in the object's order.
    """
    running = _new_hash(algorithm)
    running.update(b"".join(base64.b64decode(part) for part in parts))
    return f"{encode(running.digest())}-{len(parts)}"


def full_object_checksum(algorithm: Algorithm, parts: Sequence[tuple[str, int]]) -> str:
    """The CRC of the whole object, from its parts' CRCs, without reading a byte again.

    Args:
        algorithm: a CRC; a SHA can't be combined.
        parts: (base64, size in bytes), in the object's order; at least one.
    """
    combine = _COMBINE[algorithm]
    whole = 0
    for checksum, size_bytes in parts:
        value = int.from_bytes(base64.b64decode(checksum), "big")
        whole = combine(whole, value, size_bytes)
    return encode(whole.to_bytes(algorithm.length_bytes, "big"))
