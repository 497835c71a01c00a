"""Bodies in pieces: aws-chunked with and without signatures, and HTTP's own chunks."""

from __future__ import annotations

import hashlib
import re
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = f"{SIGNED_CHUNKS}-TRAILER"

_PIECE_BYTES = 65_536
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_SEED = re.compile(
    rb"Credential=[^/]+/(?P<scope>(?P<date>\d+)/(?P<region>[^/]+)/s3/aws4_request),"
    rb".*Signature=(?P<signature>[0-9a-f]{64})"
)


def crc32(data: bytes) -> str:
    """As x-amz-checksum-crc32 shows it."""
    return b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


def crc32_trailer(data: bytes) -> str:
    return f"x-amz-checksum-crc32:{crc32(data)}"


def unsigned_chunks(data: bytes, trailer: str = "") -> bytes:
    """aws-chunked framing without signatures; `trailer` is the text of its one line."""
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in _pieces(data))
    return framed + b"0\r\n" + (f"{trailer}\r\n" if trailer else "").encode() + b"\r\n"


def transfer_chunked(data: bytes, piece_bytes: int = 10_007) -> bytes:
    """HTTP's own framing (RFC 9112 section 7.1)."""
    pieces = [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def trailer_headers(data: bytes) -> dict[str, str]:
    """What announces `unsigned_chunks` with a CRC32 trailer."""
    return {
        "x-amz-content-sha256": UNSIGNED_TRAILER,
        "x-amz-decoded-content-length": str(len(data)),
        "x-amz-trailer": "x-amz-checksum-crc32",
        "Content-Encoding": "aws-chunked",
    }


class ChunkSigner:
    """Signs the chunks behind a signed head: the texts are the manual's, the HMACs botocore's.

    https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
    """

    def __init__(self, head: bytes, access_key: str, secret_key: str) -> None:
        seed = _SEED.search(head)
        time = re.search(rb"(?i)x-amz-date: (\w+)", head)
        assert seed is not None
        assert time is not None
        self._scope, self._previous = seed["scope"].decode(), seed["signature"].decode()
        self._request = AWSRequest()
        self._request.context["timestamp"] = self._time = time[1].decode()
        region = seed["region"].decode()
        self._signer = S3SigV4Auth(Credentials(access_key, secret_key), "s3", region)

    def body(self, data: bytes, trailers: Mapping[str, str] | None = None) -> bytes:
        """The whole body, signed chunk by chunk."""
        return b"".join(self.chunks(data)) + self._section(trailers or {})

    def chunks(self, data: bytes) -> Iterator[bytes]:
        """Each chunk with its data; the last, empty one is only its first line."""
        for piece in (*_pieces(data), b""):
            hashes = f"{_EMPTY_SHA256}\n{hashlib.sha256(piece).hexdigest()}"
            signature = self._sign("AWS4-HMAC-SHA256-PAYLOAD", hashes)
            line = f"{len(piece):x};chunk-signature={signature}\r\n".encode()
            yield line + (piece + b"\r\n" if piece else b"")

    def _section(self, trailers: Mapping[str, str]) -> bytes:
        if not trailers:
            return b"\r\n"
        lines = "".join(f"{name}:{value}\n" for name, value in trailers.items())
        signature = self._sign(
            "AWS4-HMAC-SHA256-TRAILER", hashlib.sha256(lines.encode()).hexdigest()
        )
        wire = lines.replace("\n", "\r\n") + f"x-amz-trailer-signature:{signature}\r\n\r\n"
        return wire.encode()

    def _sign(self, algorithm: str, hashes: str) -> str:
        text = "\n".join((algorithm, self._time, self._scope, self._previous, hashes))
        self._previous = self._signer.signature(text, self._request)
        return self._previous


def _pieces(data: bytes) -> list[bytes]:
    return [data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES)]
