"""Hashes of bytes as they pass, and checksums put together from parts.

The hashes (gateway.wire.hashes) release the GIL for long data, so `Digester.update` is worth
calling from a worker thread.

Multipart rules: https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence

from gateway.wire.checksums import Algorithm
from gateway.wire.hashes import COMBINE, Data, Hash, encode, new_hash


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
        self._hashes = {algorithm: new_hash(algorithm) for algorithm in algorithms}
        self._md5 = hashlib.md5(usedforsecurity=False) if md5 else None
        self._sha256 = self._hashes.get(Algorithm.SHA256)
        if sha256 and self._sha256 is None:
            self._sha256 = hashlib.sha256()
        running = [self._md5, self._sha256, *self._hashes.values()]
        self._running: tuple[Hash, ...] = tuple(
            {id(one): one for one in running if one is not None}.values()
        )

    def update(self, data: Data) -> None:
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


def composite_checksum(algorithm: Algorithm, parts: Sequence[str]) -> str:
    """The COMPOSITE checksum: the algorithm over the parts' raw digests, then ``-N``.

    Args:
        algorithm: any but CRC64NVME, which S3 gives for full objects only.
        parts: base64, in the object's order.
    """
    running = new_hash(algorithm)
    running.update(b"".join(base64.b64decode(part) for part in parts))
    return f"{encode(running.digest())}-{len(parts)}"


def full_object_checksum(algorithm: Algorithm, parts: Sequence[tuple[str, int]]) -> str:
    """The CRC of the whole object, from its parts' CRCs, without reading a byte again.

    Args:
        algorithm: a CRC; a SHA can't be combined.
        parts: (base64, size in bytes), in the object's order; at least one.
    """
    combine = COMBINE[algorithm]
    whole = 0
    for checksum, size_bytes in parts:
        value = int.from_bytes(base64.b64decode(checksum), "big")
        whole = combine(whole, value, size_bytes)
    return encode(whole.to_bytes(algorithm.length_bytes, "big"))
