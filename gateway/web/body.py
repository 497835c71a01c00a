"""The body of an HTTP request: bounded, decoded, and verified before anything may be committed.

While one batch is hashed and written by threads, the next one gathers in aiohttp's reader, so that
network, hashing and disk overlap. A request holds one reader's buffer, and in its turn one batch,
whatever its length and however slow its client.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from aiohttp import StreamReader
from aiohttp.web import RequestPayloadError

from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.s3.body import Poured, too_large
from gateway.s3.digest import Digester
from gateway.s3.integrity import Declared
from gateway.storage.port import Staged
from gateway.telemetry.traces import span
from gateway.wire.aws_chunked import (
    AwsChunkedDecoder,
    ChunkVerifier,
    decoded_length,
    is_aws_chunked,
)
from gateway.wire.checksums import Algorithm, declared_trailers, trailer_checksums
from gateway.wire.request import RequestHead

# Below this, hashing takes less time than a trip to a thread (about 30 µs).
_INLINE_BYTES = 32 * 1024
_FIRST_BYTES = 4096
_LENGTH = re.compile(r"[0-9]{1,19}")

Sink = Callable[[bytes], Awaitable[None]]
T = TypeVar("T")


class Decoder(Protocol):
    """Takes a body's framing off."""

    def feed(self, data: bytes) -> Iterable[bytes | memoryview]:
        """The payload in the next piece of the body."""

    def finish(self) -> Mapping[str, str]:
        """Told that the body is over; the trailers, lower-case name to value."""


class Digesting:
    """The threads that hash bodies, and how many batches may be under way in all requests.

    Args:
        threads: more than cores are of no use.
        batches: at once; each is one read of a connection, a few hundred KiB at most.

    Attributes:
        settling: batches that are hashed and written now.
        jobs: what the threads have to do, or are at.
    """

    def __init__(self, threads: int, batches: int) -> None:
        self.settling = self.jobs = 0
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="digest")
        self._permits = asyncio.Semaphore(batches)

    def turn(self) -> AbstractAsyncContextManager[None]:
        """The right to hold a batch: take it only then, and keep it no longer."""
        return self._permits

    async def settle(
        self, batch: bytes, decoder: Decoder | None, digester: Digester, sink: Sink
    ) -> None:
        """Decode a batch, then hash its payload while `sink` takes it."""
        self.settling += 1
        try:
            payload = batch
            if decoder is not None:
                payload = await self._off_loop(batch, partial(_decode, decoder, batch))
            if payload:
                hashing = self._off_loop(payload, partial(digester.update, payload))
                await asyncio.gather(hashing, sink(payload))
        finally:
            self.settling -= 1

    async def _off_loop(self, data: bytes, work: Callable[[], T]) -> T:
        """Work that takes time in proportion to `data`: in a thread, unless it is soon done."""
        if len(data) < _INLINE_BYTES:
            return work()
        self.jobs += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self.jobs -= 1

    def close(self) -> None:
        """Let the threads end; nothing may be settled any more."""
        self._pool.shutdown(wait=False)


def _decode(decoder: Decoder, batch: bytes) -> bytes:
    return b"".join(decoder.feed(batch))


class Source:
    """The bytes of the connection, each wait bounded, each fault as S3's error.

    Args:
        stream: aiohttp's reader.
        proceed: tells a client that waits for 100-continue to send; called before the first read,
            and so only for requests that were authenticated and whose verb wants the body.
        stall_timeout_s: longest wait for the next bytes.
    """

    def __init__(
        self, stream: StreamReader, proceed: Callable[[], None], stall_timeout_s: float
    ) -> None:
        self._stream = stream
        self._proceed = proceed
        self._stall_timeout_s = stall_timeout_s
        self.begun = False
        self.received_bytes = 0

    async def first(self) -> bytes:
        """A few of the next bytes, as soon as there are any; b"" at the end.

        A request that waits for its turn holds no more than these; what comes meanwhile stays with
        aiohttp's reader, which pauses the connection when it has enough.

        Raises:
            ClientError: RequestTimeout: the client fell silent; IncompleteBody: it broke off, or
                its chunked transfer coding is broken.
        """
        if not self.begun:
            self.begun = True
            self._proceed()
        with _as_s3_error():
            async with asyncio.timeout(self._stall_timeout_s):
                return self._count(await self._stream.read(_FIRST_BYTES))

    def rest(self) -> bytes:
        """Whatever else is there by now, without waiting. Raises as `first` does."""
        with _as_s3_error():
            return self._count(self._stream.read_nowait())

    def _count(self, data: bytes) -> bytes:
        self.received_bytes += len(data)
        return data


@contextmanager
def _as_s3_error() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise ClientError(S3Code.REQUEST_TIMEOUT) from error
    except (RequestPayloadError, ConnectionError) as error:
        raise ClientError(S3Code.INCOMPLETE_BODY) from error


class HttpBody:
    """One request's body; keeps ``s3.body.Body``.

    Args:
        source: where the bytes come from.
        head: says how they are framed, how many they are, and what they hash to.
        limits: max_object_bytes bounds what `pour` takes.
        digesting: shared by all requests.
        sha256_hex: what the signature says the body hashes to; None where it says nothing.
        verifier: of signed chunks; None where chunks are unsigned.
    """

    def __init__(
        self,
        source: Source,
        head: RequestHead,
        limits: HttpLimits,
        digesting: Digesting,
        *,
        sha256_hex: str | None,
        verifier: ChunkVerifier | None,
    ) -> None:
        self._source = source
        self._head = head
        self._limits = limits
        self._digesting = digesting
        self._sha256_hex = sha256_hex
        self._verifier = verifier
        self._ahead = b""  # of the body, read already

    @property
    def length_bytes(self) -> int | None:
        if is_aws_chunked(self._head):
            return decoded_length(self._head)
        return _content_length(self._head)

    async def pour(self, staged: Staged, also: frozenset[Algorithm] = frozenset()) -> Poured:
        length_bytes = self.length_bytes
        if length_bytes is None and (
            is_aws_chunked(self._head) or self._head.get("transfer-encoding") is None
        ):
            raise ClientError(S3Code.MISSING_CONTENT_LENGTH)
        limit_bytes = self._limits.max_object_bytes
        over_limit = partial(too_large, length_bytes, limit_bytes)
        with span("data", path="http"):
            return await self._move(staged.write, limit_bytes, over_limit, also)

    async def read(self, limit_bytes: int) -> bytes:
        document = bytearray()

        async def collect(data: bytes) -> None:
            document.extend(data)

        await self._move(collect, limit_bytes, partial(_too_long, limit_bytes), frozenset())
        return bytes(document)

    async def _move(
        self,
        sink: Sink,
        limit_bytes: int,
        over_limit: Callable[[], ClientError],
        also: frozenset[Algorithm],
    ) -> Poured:
        """Everything into `sink`, verified."""
        if (self.length_bytes or 0) > limit_bytes:
            raise over_limit()
        declared, announced = Declared.of(self._head), declared_trailers(self._head)
        algorithms = {*also, *declared.checksums, *announced} or {Algorithm.CRC64NVME}
        digester = Digester(algorithms, sha256=self._sha256_hex is not None)
        decoder = self._decoder(announced)
        await self._digesting.settle(self._ahead, decoder, digester, sink)
        while first := await self._source.first():
            async with self._digesting.turn():
                batch = first + self._source.rest()
                await self._digesting.settle(batch, decoder, digester, sink)
            if digester.size_bytes > limit_bytes:
                break
        if digester.size_bytes > limit_bytes:
            raise over_limit()
        if decoder is not None:
            trailers = trailer_checksums(decoder.finish())
            declared = replace(declared, checksums={**declared.checksums, **trailers})
        self._verify(declared, digester, computed := digester.checksums)
        return Poured(digester.size_bytes, digester.md5, computed)

    def _decoder(self, announced: tuple[Algorithm, ...]) -> Decoder | None:
        if not is_aws_chunked(self._head):
            if announced:
                raise ClientError(
                    S3Code.MALFORMED_TRAILER, "Only aws-chunked bodies have trailers."
                )
            return None
        names = tuple(algorithm.header for algorithm in announced)
        return AwsChunkedDecoder(self._verifier, names, decoded_length(self._head))

    def _verify(
        self, declared: Declared, digester: Digester, computed: Mapping[Algorithm, str]
    ) -> None:
        if self._sha256_hex is not None and digester.sha256.hex() != self._sha256_hex:
            raise ClientError(
                S3Code.CONTENT_SHA256_MISMATCH,
                details={
                    "ClientComputedContentSHA256": self._sha256_hex,
                    "S3ComputedContentSHA256": digester.sha256.hex(),
                },
            )
        declared.verify(digester.md5, computed)


def _content_length(head: RequestHead) -> int | None:
    value = head.get("content-length")
    return int(value) if value is not None and _LENGTH.fullmatch(value) else None


def _too_long(limit_bytes: int) -> ClientError:
    return ClientError(
        S3Code.MAX_MESSAGE_LENGTH_EXCEEDED, details={"MaxMessageLengthBytes": str(limit_bytes)}
    )
