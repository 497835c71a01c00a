"""web.body: five payload modes, each fault, limits and order; botocore and AWS's examples judge."""

from __future__ import annotations

import asyncio
import hashlib
import io
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.web import RequestPayloadError
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum
from request_heads import head as make_head

from gateway.auth.chunks import ChunkChain, SigningMaterial
from gateway.auth.credentials import Scope, derive_signing_key
from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.web.body import Digesting, HttpBody, Source
from gateway.wire.checksums import Algorithm
from gateway.wire.request import RequestHead

DATA = bytes(range(256)) * 1024
MD5 = b64encode(hashlib.md5(DATA).digest()).decode()
CRC32 = b64encode(zlib.crc32(DATA).to_bytes(4, "big")).decode()

# https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html, and …-trailers.html
SCOPE = Scope("20130524", "us-east-1", "s3")
KEY = derive_signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", SCOPE)
TIMESTAMP = "20130524T000000Z"
EXAMPLE = b"a" * 66_560
SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
CHUNKS = (
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
)
TRAILER_SEED = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
TRAILER_CHUNKS = (
    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
)
TRAILER = (
    b"x-amz-checksum-crc32c:sOO8/Q==\r\n"
    b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n"
)


class Kept:
    """A staged place that remembers what it was given."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.longest = 0

    def fileno(self) -> None:
        return None

    def written(self, length_bytes: int) -> None:
        raise AssertionError("nothing was written past write()")

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        await asyncio.sleep(0)
        self.data += data
        self.longest = max(self.longest, len(data))

    async def discard(self) -> None:
        self.data.clear()


@dataclass
class Wire:
    """What a client sends, and whether it was told to go on."""

    stream: StreamReader
    proceeded: int = 0

    def feed(self, data: bytes, piece_bytes: int = 60_000) -> Wire:
        """Everything, in pieces, and the end."""
        for at in range(0, len(data), piece_bytes):
            self.stream.feed_data(data[at : at + piece_bytes])
        self.stream.feed_eof()
        return self

    def proceed(self) -> None:
        self.proceeded += 1


class Endless(BaseProtocol):
    """A connection without a transport or a parser, so without flow control."""

    connected = True

    def pause_reading(self) -> None: ...
    def resume_reading(self, resume_parser: bool = True) -> None: ...


@pytest.fixture
async def wire() -> Wire:
    loop = asyncio.get_running_loop()
    return Wire(StreamReader(Endless(loop), 2**16, loop=loop))


@pytest.fixture
async def digesting() -> AsyncIterator[Digesting]:
    made = Digesting(2, 4)
    yield made
    made.close()


Open = Callable[..., HttpBody]


@pytest.fixture
def open_body(wire: Wire, digesting: Digesting) -> Open:
    def make(
        head: RequestHead,
        *,
        sha256_hex: str | None = None,
        seed: str | None = None,
        limits: HttpLimits | None = None,
        stall_s: float = 5.0,
    ) -> HttpBody:
        verifier = seed and ChunkChain(SigningMaterial(KEY, TIMESTAMP, SCOPE.text, seed))
        source = Source(wire.stream, wire.proceed, stall_s)
        return HttpBody(
            source,
            head,
            limits or HttpLimits(),
            digesting,
            sha256_hex=sha256_hex,
            verifier=verifier or None,
        )

    return make


def put(data: bytes = DATA, **headers: str) -> RequestHead:
    return make_head("PUT", "/b/k", **({"content_length": str(len(data))} | headers))


def streaming(data: bytes, mode: str, **headers: str) -> RequestHead:
    return make_head(
        "PUT",
        "/b/k",
        x_amz_content_sha256=f"STREAMING-{mode}",
        x_amz_decoded_content_length=str(len(data)),
        **headers,
    )


def signed_chunks(
    signatures: tuple[str, str, str] = CHUNKS, last: bytes = b"\r\n", data: bytes = EXAMPLE
) -> bytes:
    pieces = (data[:65_536], data[65_536:], b"")
    framed = b"".join(
        f"{len(piece):x};chunk-signature={signature}\r\n".encode()
        + (piece + b"\r\n" if piece else b"")
        for piece, signature in zip(pieces, signatures, strict=True)
    )
    return framed + last


def unsigned_trailer(data: bytes) -> bytes:
    """What botocore sends over TLS."""
    wrapper = AwsChunkedWrapper(
        io.BytesIO(data),
        checksum_cls=Crc32Checksum,
        checksum_name="x-amz-checksum-crc32",
        chunk_size=100_000,
    )
    return b"".join(iter(wrapper.read, b""))


@contextmanager
def refused(code: S3Code) -> Iterator[None]:
    with pytest.raises(ClientError) as failure:
        yield
    assert failure.value.code is code


# Whole bodies


async def test_pour__plain_body__arrives_whole_with_its_md5_and_crc64nvme(
    wire: Wire, open_body: Open
) -> None:
    wire.feed(DATA)
    kept = Kept()
    poured = await open_body(put()).pour(kept)
    assert bytes(kept.data) == DATA
    assert (poured.size_bytes, poured.md5) == (len(DATA), hashlib.md5(DATA).digest())
    assert set(poured.checksums) == {Algorithm.CRC64NVME}


async def test_pour__empty_body__is_no_write_at_all(wire: Wire, open_body: Open) -> None:
    wire.feed(b"")
    kept = Kept()
    poured = await open_body(put(b"")).pour(kept)
    assert (poured.size_bytes, poured.md5, kept.longest) == (0, hashlib.md5(b"").digest(), 0)


async def test_pour__declared_and_asked_for__are_all_computed(wire: Wire, open_body: Open) -> None:
    wire.feed(DATA)
    head = put(x_amz_checksum_crc32=CRC32, content_md5=MD5)
    poured = await open_body(head).pour(Kept(), also=frozenset({Algorithm.SHA256}))
    assert poured.checksums == {
        Algorithm.CRC32: CRC32,
        Algorithm.SHA256: b64encode(hashlib.sha256(DATA).digest()).decode(),
    }


async def test_pour__signed_hash_of_the_payload__is_held_to_it(wire: Wire, open_body: Open) -> None:
    wire.feed(DATA)
    body = open_body(put(), sha256_hex=hashlib.sha256(DATA).hexdigest())
    assert (await body.pour(Kept())).size_bytes == len(DATA)


async def test_pour__aws_example_of_signed_chunks__is_its_payload(
    wire: Wire, open_body: Open
) -> None:
    wire.feed(signed_chunks())
    kept = Kept()
    await open_body(streaming(EXAMPLE, "AWS4-HMAC-SHA256-PAYLOAD"), seed=SEED).pour(kept)
    assert bytes(kept.data) == EXAMPLE


async def test_pour__aws_example_of_signed_trailer__is_its_payload_and_checksum(
    wire: Wire, open_body: Open
) -> None:
    wire.feed(signed_chunks(TRAILER_CHUNKS, TRAILER + b"\r\n"))
    head = streaming(
        EXAMPLE, "AWS4-HMAC-SHA256-PAYLOAD-TRAILER", x_amz_trailer="x-amz-checksum-crc32c"
    )
    poured = await open_body(head, seed=TRAILER_SEED).pour(Kept())
    assert poured.checksums == {Algorithm.CRC32C: "sOO8/Q=="}


@pytest.mark.parametrize("piece_bytes", [1, 7, 65_536, 1_000_000])
async def test_pour__botocores_unsigned_trailer__is_the_payload_however_it_is_cut(
    wire: Wire, open_body: Open, piece_bytes: int
) -> None:
    data = DATA[: 4000 if piece_bytes < 10 else None]
    wire.feed(unsigned_trailer(data), piece_bytes)
    head = streaming(data, "UNSIGNED-PAYLOAD-TRAILER", x_amz_trailer="x-amz-checksum-crc32")
    kept = Kept()
    poured = await open_body(head).pour(kept)
    assert bytes(kept.data) == data
    assert set(poured.checksums) == {Algorithm.CRC32}


async def test_pour__transfer_encoding_chunked__needs_no_length(
    wire: Wire, open_body: Open
) -> None:
    wire.feed(DATA)
    body = open_body(make_head("PUT", "/b/k", transfer_encoding="chunked"))
    assert body.length_bytes is None
    assert (await body.pour(Kept())).size_bytes == len(DATA)


async def test_length__aws_chunked__is_the_decoded_one(open_body: Open) -> None:
    head = streaming(DATA, "UNSIGNED-PAYLOAD-TRAILER", content_length="999999")
    assert open_body(head).length_bytes == len(DATA)


# Faults


async def test_pour__sha256_differs__is_content_sha256_mismatch(
    wire: Wire, open_body: Open
) -> None:
    wire.feed(DATA)
    with refused(S3Code.CONTENT_SHA256_MISMATCH):
        await open_body(put(), sha256_hex="0" * 64).pour(Kept())


@pytest.mark.parametrize(
    "headers",
    [{"content_md5": b64encode(bytes(16)).decode()}, {"x_amz_checksum_crc32": "AAAAAA=="}],
)
async def test_pour__declared_digest_differs__is_bad_digest(
    wire: Wire, open_body: Open, headers: dict[str, str]
) -> None:
    wire.feed(DATA)
    with refused(S3Code.BAD_DIGEST):
        await open_body(put(**headers)).pour(Kept())


async def test_pour__malformed_md5__is_refused_before_a_byte_is_asked_for(
    wire: Wire, open_body: Open
) -> None:
    with refused(S3Code.INVALID_DIGEST):
        await open_body(put(content_md5="nonsense")).pour(Kept())
    assert wire.proceeded == 0


async def test_pour__chunk_altered__is_signature_does_not_match(
    wire: Wire, open_body: Open
) -> None:
    wire.feed(signed_chunks(data=b"b" + EXAMPLE[1:]))
    with refused(S3Code.SIGNATURE_DOES_NOT_MATCH):
        await open_body(streaming(EXAMPLE, "AWS4-HMAC-SHA256-PAYLOAD"), seed=SEED).pour(Kept())


async def test_pour__trailer_altered__is_signature_does_not_match(
    wire: Wire, open_body: Open
) -> None:
    wire.feed(signed_chunks(TRAILER_CHUNKS, TRAILER.replace(b"sOO8", b"sOO9") + b"\r\n"))
    head = streaming(
        EXAMPLE, "AWS4-HMAC-SHA256-PAYLOAD-TRAILER", x_amz_trailer="x-amz-checksum-crc32c"
    )
    with refused(S3Code.SIGNATURE_DOES_NOT_MATCH):
        await open_body(head, seed=TRAILER_SEED).pour(Kept())


async def test_pour__trailer_checksum_differs__is_bad_digest(wire: Wire, open_body: Open) -> None:
    wire.feed(unsigned_trailer(DATA).replace(CRC32.encode(), b"AAAAAA=="))
    head = streaming(DATA, "UNSIGNED-PAYLOAD-TRAILER", x_amz_trailer="x-amz-checksum-crc32")
    with refused(S3Code.BAD_DIGEST):
        await open_body(head).pour(Kept())


async def test_pour__trailer_announced_without_chunks__is_malformed_trailer(
    wire: Wire, open_body: Open
) -> None:
    wire.feed(DATA)
    with refused(S3Code.MALFORMED_TRAILER):
        await open_body(put(x_amz_trailer="x-amz-checksum-crc32")).pour(Kept())


@pytest.mark.parametrize("cut_bytes", [1, 30, 100_000])
async def test_pour__framing_ends_early__is_incomplete_body(
    wire: Wire, open_body: Open, cut_bytes: int
) -> None:
    wire.feed(unsigned_trailer(DATA)[:-cut_bytes])
    head = streaming(DATA, "UNSIGNED-PAYLOAD-TRAILER", x_amz_trailer="x-amz-checksum-crc32")
    with refused(S3Code.INCOMPLETE_BODY):
        await open_body(head).pour(Kept())


async def test_pour__decoded_length_is_another__is_incomplete_body(
    wire: Wire, open_body: Open
) -> None:
    wire.feed(unsigned_trailer(DATA))
    head = streaming(DATA + b"x", "UNSIGNED-PAYLOAD-TRAILER", x_amz_trailer="x-amz-checksum-crc32")
    with refused(S3Code.INCOMPLETE_BODY):
        await open_body(head).pour(Kept())


@pytest.mark.parametrize("fault", [ConnectionResetError(), RequestPayloadError("bad chunk")])
async def test_pour__connection_breaks_off__is_incomplete_body(
    wire: Wire, open_body: Open, fault: Exception
) -> None:
    wire.stream.feed_data(DATA[:1000])
    wire.stream.set_exception(fault)
    with refused(S3Code.INCOMPLETE_BODY):
        await open_body(put()).pour(Kept())


async def test_pour__client_falls_silent__is_request_timeout(wire: Wire, open_body: Open) -> None:
    wire.stream.feed_data(DATA[:1000])
    with refused(S3Code.REQUEST_TIMEOUT):
        await open_body(put(), stall_s=0.01).pour(Kept())


@pytest.mark.parametrize(
    "head",
    [
        make_head("PUT", "/b/k"),
        make_head("PUT", "/b/k", x_amz_content_sha256="STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ],
)
async def test_pour__no_length_anywhere__is_411(open_body: Open, head: RequestHead) -> None:
    with refused(S3Code.MISSING_CONTENT_LENGTH):
        await open_body(head).pour(Kept())


async def test_pour__announced_too_large__is_refused_before_a_byte_is_asked_for(
    wire: Wire, open_body: Open
) -> None:
    with refused(S3Code.ENTITY_TOO_LARGE):
        await open_body(put(), limits=HttpLimits(max_object_bytes=len(DATA) - 1)).pour(Kept())
    assert wire.proceeded == 0


async def test_pour__turns_out_too_large__is_refused_on_the_way(
    wire: Wire, open_body: Open
) -> None:
    wire.feed(DATA)
    body = open_body(
        make_head("PUT", "/b/k", transfer_encoding="chunked"),
        limits=HttpLimits(max_object_bytes=1000),
    )
    with refused(S3Code.ENTITY_TOO_LARGE):
        await body.pour(Kept())


async def test_pour__disk_fails__its_error_comes_out(wire: Wire, open_body: Open) -> None:
    class Full(Kept):
        async def write(self, data: bytes | bytearray | memoryview) -> None:
            raise OSError("full")

    wire.feed(DATA)
    with pytest.raises(OSError, match="full"):
        await open_body(put()).pour(Full())


# Documents, and 100-continue


async def test_read__small_document__is_its_bytes(wire: Wire, open_body: Open) -> None:
    wire.feed(b"<Delete/>")
    assert await open_body(put(b"<Delete/>")).read(1000) == b"<Delete/>"


async def test_read__no_length_and_no_body__is_empty(wire: Wire, open_body: Open) -> None:
    wire.feed(b"")
    assert await open_body(make_head("PUT", "/b")).read(1000) == b""


@pytest.mark.parametrize("headers", [{}, {"content_length": "5", "transfer_encoding": "chunked"}])
async def test_read__over_the_limit__is_max_message_length_exceeded(
    wire: Wire, open_body: Open, headers: dict[str, str]
) -> None:
    wire.feed(DATA)
    with refused(S3Code.MAX_MESSAGE_LENGTH_EXCEEDED):
        await open_body(put(**headers)).read(1000)


async def test_read__md5_differs__is_bad_digest(wire: Wire, open_body: Open) -> None:
    wire.feed(b"<Delete/>")
    with refused(S3Code.BAD_DIGEST):
        await open_body(put(b"<Delete/>", content_md5=MD5)).read(1000)


async def test_source__first_read__tells_the_client_to_go_on_once(
    wire: Wire, open_body: Open
) -> None:
    body = open_body(put())
    assert wire.proceeded == 0
    wire.feed(DATA)
    await body.pour(Kept())
    assert wire.proceeded == 1
