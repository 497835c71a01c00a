r"""aws-chunked bodies, decoded without I/O: framing in, payload and verified trailers out.

::

    <hex size>[;chunk-signature=<64 hex>]\r\n <data> \r\n     any number of times
    0[;chunk-signature=<64 hex>]\r\n                          the last chunk
    [<trailer name>:<value>\r\n]*                             what x-amz-trailer announced
    [x-amz-trailer-signature:<64 hex>\r\n]                    when the chunks are signed
    \r\n

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html

A chunk's payload is released as it arrives, before its signature can be known: whoever receives it
stages it, and commits only after `AwsChunkedDecoder.finish` returned. So no chunk is ever buffered,
whatever its size.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

from gateway.errors import ClientError, S3Code
from gateway.wire.request import RequestHead

MAX_CHUNK_LINE_BYTES = 256  # 16 digits and a signature take 97
MAX_TRAILER_BYTES = 4096  # the whole section; one checksum and a signature take 200

_CODING = "aws-chunked"
_TRAILER_SIGNATURE = "x-amz-trailer-signature"
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?")
_DIGITS = re.compile(r"[0-9]{1,19}")


class ChunkVerifier(Protocol):
    """The chain of chunk signatures; `auth.chunks` has the real one."""

    def verify_chunk(self, sha256_hex: str, signature: str) -> None:
        """Check the next chunk. Raises ClientError(SignatureDoesNotMatch)."""

    def verify_trailer(self, sha256_hex: str, signature: str) -> None:
        """Check the trailer section. Raises ClientError(SignatureDoesNotMatch)."""


class _State(Enum):
    SIZE = auto()  # expecting a chunk's first line
    DATA = auto()  # inside a chunk
    DATA_END = auto()  # expecting the CRLF behind a chunk's data
    TRAILERS = auto()  # behind the last chunk's first line


class AwsChunkedDecoder:
    """One body. Feed it everything in order, then `finish` it; after an error it is over.

    Args:
        verifier: checks each chunk's signature; None for STREAMING-UNSIGNED-PAYLOAD-TRAILER.
        trailers: lower-case names that must follow, and no others (x-amz-trailer).
        decoded_length_bytes: x-amz-decoded-content-length, None where it was not sent.
    """

    def __init__(
        self,
        verifier: ChunkVerifier | None,
        trailers: Sequence[str] = (),
        decoded_length_bytes: int | None = None,
    ) -> None:
        self._verifier = verifier
        self._expected = frozenset(trailers)
        self._decoded_length_bytes = decoded_length_bytes
        self._state = _State.SIZE
        self._line = bytearray()  # a line that is not complete yet
        self._left_bytes = 0  # of the current chunk
        self._signature = ""  # of the current chunk
        self._sha256 = hashlib.sha256()  # of the current chunk
        self._decoded_bytes = 0
        self._trailer_bytes = 0
        self._trailer_lines: list[str] = []
        self._trailer_signature: str | None = None
        self._ended = False  # an empty line came last

    @property
    def decoded_bytes(self) -> int:
        """How much payload was released so far."""
        return self._decoded_bytes

    def feed(self, data: bytes | bytearray | memoryview) -> list[memoryview]:
        """Take the next piece of the body, of any length; returns its payload as views into it.

        Raises:
            ClientError: IncompleteBody: broken framing, or more payload than announced;
                SignatureDoesNotMatch: a chunk was altered; MalformedTrailerError.
        """
        view = memoryview(data).cast("B")
        payload: list[memoryview] = []
        while len(view):
            if self._state is _State.DATA:
                view = self._take_data(view, payload)
            else:
                view = self._take_line(view)
        return payload

    def finish(self) -> Mapping[str, str]:
        """The body ended; returns the trailers, lower-case name to value.

        Raises:
            ClientError: IncompleteBody: the framing or the payload stops short;
                MalformedTrailerError: a trailer is missing, repeated or was not announced;
                SignatureDoesNotMatch: the trailers were altered.
        """
        if self._state is not _State.TRAILERS or not self._ended or self._line:
            raise _incomplete("the body ends inside its aws-chunked framing")
        expected_bytes = self._decoded_length_bytes
        if expected_bytes is not None and self._decoded_bytes != expected_bytes:
            raise _incomplete(
                f"x-amz-decoded-content-length says {expected_bytes} bytes, "
                f"{self._decoded_bytes} came"
            )
        self._verify_trailers()
        return self._parse_trailers()

    def _take_data(self, view: memoryview, payload: list[memoryview]) -> memoryview:
        piece = view[: self._left_bytes]
        if self._verifier is not None:
            self._sha256.update(piece)
        payload.append(piece)
        self._decoded_bytes += len(piece)
        self._left_bytes -= len(piece)
        if not self._left_bytes:
            self._verify_chunk()
            self._state = _State.DATA_END
        return view[len(piece) :]

    def _take_line(self, view: memoryview) -> memoryview:
        room_bytes = MAX_CHUNK_LINE_BYTES
        if self._state is _State.TRAILERS:
            room_bytes = MAX_TRAILER_BYTES - self._trailer_bytes
        room_bytes -= len(self._line)
        head = bytes(view[:room_bytes])
        newline = head.find(b"\n")
        if newline < 0:
            self._line += head
            if len(head) == room_bytes:
                raise self._line_too_long()
            return view[len(head) :]
        line = bytes(self._line) + head[:newline]
        self._line.clear()
        self._on_line(line.removesuffix(b"\r"), len(line) + 1)
        return view[newline + 1 :]

    def _on_line(self, line: bytes, length_bytes: int) -> None:
        match self._state:
            case _State.SIZE:
                self._on_chunk_line(line)
            case _State.DATA_END:
                if line:
                    raise _incomplete("a chunk's data must be followed by CRLF")
                self._state = _State.SIZE
            case _:
                self._trailer_bytes += length_bytes
                self._on_trailer_line(line)

    def _on_chunk_line(self, line: bytes) -> None:
        match = _CHUNK_LINE.fullmatch(line)
        if match is None or (match[2] is None) != (self._verifier is None):
            wanted = "<hex size>" + ("" if self._verifier is None else ";chunk-signature=<64 hex>")
            raise _incomplete(f"a chunk must begin with {wanted}")
        self._left_bytes = int(match[1], 16)
        self._signature = (match[2] or b"").decode("ascii")
        self._sha256 = hashlib.sha256()
        limit_bytes = self._decoded_length_bytes
        if limit_bytes is not None and self._decoded_bytes + self._left_bytes > limit_bytes:
            raise _incomplete(
                f"the chunks exceed x-amz-decoded-content-length, {limit_bytes} bytes"
            )
        if self._left_bytes:
            self._state = _State.DATA
        else:
            self._verify_chunk()
            self._state = _State.TRAILERS

    def _on_trailer_line(self, line: bytes) -> None:
        # An empty line ends the section; some signers also put one before the signature.
        self._ended = not line
        if not line:
            return
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name.strip():
            raise _malformed_trailer("each trailer is a line <name>:<value>")
        if name.strip().lower() == _TRAILER_SIGNATURE:
            if self._trailer_signature is not None:
                raise _malformed_trailer(f"{_TRAILER_SIGNATURE} comes twice")
            self._trailer_signature = value.strip()
        else:
            self._trailer_lines.append(f"{name.strip().lower()}:{value.strip()}")

    def _verify_chunk(self) -> None:
        if self._verifier is not None:
            self._verifier.verify_chunk(self._sha256.hexdigest(), self._signature)

    def _verify_trailers(self) -> None:
        if self._verifier is None or (not self._trailer_lines and self._trailer_signature is None):
            return
        if self._trailer_signature is None:
            raise _malformed_trailer(f"signed chunks need {_TRAILER_SIGNATURE} behind the trailers")
        signed = "".join(f"{line}\n" for line in self._trailer_lines)
        sha256_hex = hashlib.sha256(signed.encode("latin-1")).hexdigest()
        self._verifier.verify_trailer(sha256_hex, self._trailer_signature)

    def _parse_trailers(self) -> Mapping[str, str]:
        trailers = dict(line.split(":", 1) for line in self._trailer_lines)
        if len(trailers) != len(self._trailer_lines) or trailers.keys() != self._expected:
            raise _malformed_trailer(
                "the trailers must be those that x-amz-trailer names, each once"
            )
        return trailers

    def _line_too_long(self) -> ClientError:
        if self._state is _State.TRAILERS:
            return _malformed_trailer(f"trailers may have {MAX_TRAILER_BYTES} bytes in all")
        return _incomplete(f"a chunk's first line may have {MAX_CHUNK_LINE_BYTES} bytes")


def is_aws_chunked(head: RequestHead) -> bool:
    """Whether the body has aws-chunked framing; each of three headers alone says so.

    restic and minio-go send STREAMING-… without a Content-Encoding, others the reverse. A hash of
    the body as it is sent, or UNSIGNED-PAYLOAD, outweighs a Content-Encoding.
    """
    payload = head.get("x-amz-content-sha256")
    if (payload or "").startswith("STREAMING-"):
        return True
    if head.get("x-amz-decoded-content-length") is not None:
        return True
    return payload is None and any(
        coding.strip().lower() == _CODING
        for value in head.values("content-encoding")
        for coding in value.split(",")
    )


def decoded_length(head: RequestHead) -> int | None:
    """x-amz-decoded-content-length in bytes; None where it is absent.

    Raises:
        ClientError: InvalidArgument where it is no decimal number.
    """
    value = head.get("x-amz-decoded-content-length")
    if value is None:
        return None
    if not _DIGITS.fullmatch(value):
        raise ClientError(
            S3Code.INVALID_ARGUMENT,
            "x-amz-decoded-content-length must be a decimal number of bytes.",
            details={"ArgumentName": "x-amz-decoded-content-length", "ArgumentValue": value},
        )
    return int(value)


def _incomplete(reason: str) -> ClientError:
    return ClientError(S3Code.INCOMPLETE_BODY, f"The request body is not complete: {reason}.")


def _malformed_trailer(reason: str) -> ClientError:
    return ClientError(
        S3Code.MALFORMED_TRAILER,
        f"The request contained trailing data that was not well-formed: {reason}.",
    )
