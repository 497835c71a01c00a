"""Request bodies in memory, hashed by the standard library and awscrt, not by the gateway."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Mapping

from awscrt import checksums as crt

from gateway.errors import ClientError, S3Code
from gateway.s3.body import Poured
from gateway.storage.port import Staged
from gateway.wire.checksums import Algorithm

_DIGESTS: Mapping[Algorithm, Callable[[bytes], bytes]] = {
    Algorithm.CRC32: lambda data: zlib.crc32(data).to_bytes(4, "big"),
    Algorithm.CRC32C: lambda data: crt.crc32c(data).to_bytes(4, "big"),
    Algorithm.CRC64NVME: lambda data: crt.crc64nvme(data).to_bytes(8, "big"),
    Algorithm.SHA1: lambda data: hashlib.sha1(data).digest(),
    Algorithm.SHA256: lambda data: hashlib.sha256(data).digest(),
}


def checksum(algorithm: Algorithm, data: bytes) -> str:
    """Base64 of a checksum of all of `data`."""
    return base64.b64encode(_DIGESTS[algorithm](data)).decode()


class BytesBody:
    """Keeps ``gateway.s3.body.Body`` over bytes that are there already.

    Args:
        data: what arrives.
        declared: algorithms that the client declared (with the right value).
        torn: pour everything, then fail as a body whose checksum was wrong.
        chunked: announce no length.
    """

    def __init__(
        self, data: bytes = b"", *declared: Algorithm, torn: bool = False, chunked: bool = False
    ) -> None:
        self._data = data
        self._declared = frozenset(declared)
        self._torn = torn
        self.length_bytes = None if chunked else len(data)

    async def pour(self, staged: Staged, also: frozenset[Algorithm] = frozenset()) -> Poured:
        await staged.write(self._data)
        if self._torn:
            raise ClientError(S3Code.BAD_DIGEST)
        named = (self._declared or {Algorithm.CRC64NVME}) | also
        return Poured(
            size_bytes=len(self._data),
            md5=hashlib.md5(self._data).digest(),
            checksums={algorithm: checksum(algorithm, self._data) for algorithm in named},
        )

    async def read(self, limit_bytes: int) -> bytes:
        if len(self._data) > limit_bytes:
            raise ClientError(S3Code.MAX_MESSAGE_LENGTH_EXCEEDED)
        return self._data
