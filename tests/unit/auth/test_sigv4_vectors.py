"""AWS's published signatures: the SigV4 test suite, and the worked examples of S3's manual.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html

Left out of the suite: normalize-path (S3 never normalises a path) and get-header-value-multiline
(line folding never reaches us: RFC 9112 section 5.2).
"""

from __future__ import annotations

import hashlib

import pytest
from request_heads import ACCESS_KEY, STORE, posix_s

from gateway.auth.canonical import canonical_request
from gateway.auth.claim import parse_claim
from gateway.auth.credentials import Credentials, CredentialStore, Scope, derive_signing_key, sign
from gateway.auth.payload import PayloadMode
from gateway.auth.sigv4 import string_to_sign, verify
from gateway.errors import ClientError, S3Code
from gateway.wire.aws_chunked import AwsChunkedDecoder
from gateway.wire.request import RequestHead

SUITE_DATE = "20150830T123600Z"
SUITE_SCOPE = "20150830/us-east-1/service/aws4_request"
HOST = ("host", "example.amazonaws.com")
DATE = ("x-amz-date", SUITE_DATE)
UNRESERVED = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SESSION_TOKEN = (
    "x-amz-security-token",
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfI"
    "eoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0"
    "wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDry"
    "pNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==",
)

# name, method, request target, headers besides host and date, signature
SUITE = [
    (
        "get-vanilla",
        "GET",
        "/",
        (),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-header-key-duplicate",
        "GET",
        "/",
        (("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")),
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    (
        "get-header-value-order",
        "GET",
        "/",
        tuple(("my-header1", f"value{number}") for number in (4, 1, 3, 2)),
        "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
    ),
    (
        "get-header-value-trim",
        "GET",
        "/",
        (("my-header1", "value1"), ("my-header2", '"a   b   c"')),
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    (
        "get-unreserved",
        "GET",
        f"/{UNRESERVED}",
        (),
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
    ),
    (
        "get-utf8",
        "GET",
        "/\u1234",
        (),
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
    ),
    (
        "get-vanilla-empty-query-key",
        "GET",
        "/?Param1=value1",
        (),
        "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
    ),
    (
        "get-vanilla-query-order-encoded",
        "GET",
        "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
        (),
        "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
    ),
    (
        "get-vanilla-query-order-key-case",
        "GET",
        "/?Param2=value2&Param1=value1",
        (),
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "get-vanilla-query-order-key",
        "GET",
        "/?Param1=value2&Param1=Value1",
        (),
        "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1",
    ),
    (
        "get-vanilla-query-order-value",
        "GET",
        "/?Param1=value2&Param1=value1",
        (),
        "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694",
    ),
    (
        "get-vanilla-query-unreserved",
        "GET",
        f"/?{UNRESERVED}={UNRESERVED}",
        (),
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
    ),
    (
        "get-vanilla-utf8-query",
        "GET",
        "/?\u1234=bar",
        (),
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
    ),
    (
        "post-vanilla",
        "POST",
        "/",
        (),
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    (
        "post-header-key-sort",
        "POST",
        "/",
        (("my-header1", "value1"),),
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    ),
    (
        "post-header-value-case",
        "POST",
        "/",
        (("my-header1", "VALUE1"),),
        "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
    ),
    (
        "post-sts-header-before",
        "POST",
        "/",
        (SESSION_TOKEN,),
        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
    ),
    (
        "post-vanilla-query",
        "POST",
        "/?Param1=value1",
        (),
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    ),
]


def suite_head(
    method: str, target: str, extra: tuple[tuple[str, str], ...], sig: str
) -> RequestHead:
    path, _, query = target.partition("?")
    headers = (HOST, DATE, *extra)
    signed = ";".join(sorted({name for name, _ in headers}))
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{SUITE_SCOPE}, "
        f"SignedHeaders={signed}, Signature={sig}"
    )
    return RequestHead(method, path, query, (*headers, ("authorization", authorization)))


@pytest.mark.parametrize(
    ("method", "target", "extra", "signature"),
    [row[1:] for row in SUITE],
    ids=[row[0] for row in SUITE],
)
def test_verify__sigv4_test_suite__accepts_the_published_signature(
    method: str, target: str, extra: tuple[tuple[str, str], ...], signature: str
) -> None:
    head = suite_head(method, target, extra, signature)

    verified = verify(head, STORE, posix_s(SUITE_DATE), "us-east-1", "service")

    assert verified.principal.access_key == ACCESS_KEY


@pytest.mark.parametrize(
    ("content_type", "signature"),
    [
        (
            "application/x-www-form-urlencoded",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
        (
            "application/x-www-form-urlencoded; charset=utf8",
            "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe",
        ),
    ],
)
def test_sign__sigv4_test_suite_with_a_body__gives_the_published_signature(
    content_type: str, signature: str
) -> None:
    # The suite's bodies are not announced by x-amz-content-sha256, as S3's must be.
    head = suite_head("POST", "/", (("content-type", content_type),), signature)
    claim = parse_claim(head)
    assert claim is not None
    payload_hash = hashlib.sha256(b"Param1=value1").hexdigest()
    canonical = canonical_request(head, claim.signed_headers, payload_hash)
    key = STORE.signing_key(ACCESS_KEY, claim.scope)
    assert key is not None

    assert sign(key, string_to_sign(claim.timestamp, claim.scope, canonical)) == signature


MANUAL_KEY = "AKIAIOSFODNN7EXAMPLE"
MANUAL_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
MANUAL_STORE = CredentialStore([Credentials(MANUAL_KEY, MANUAL_SECRET)])
MANUAL_DATE = "20130524T000000Z"
MANUAL_SCOPE = "20130524/us-east-1/s3/aws4_request"
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
PUT_SHA256 = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"


def manual_head(
    method: str, target: str, host: str, signature: str, sha256: str, **extra: str
) -> RequestHead:
    path, _, query = target.partition("?")
    named = {name.replace("_", "-"): value for name, value in extra.items()}
    headers = {"host": host, "x-amz-content-sha256": sha256, "x-amz-date": MANUAL_DATE} | named
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={MANUAL_KEY}/{MANUAL_SCOPE},"
        f"SignedHeaders={';'.join(sorted(headers))},Signature={signature}"
    )
    return RequestHead(method, path, query, (*headers.items(), ("authorization", authorization)))


VHOST = "examplebucket.s3.amazonaws.com"
MANUAL = [
    manual_head(
        "GET",
        "/test.txt",
        VHOST,
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        EMPTY_SHA256,
        range="bytes=0-9",
    ),
    manual_head(
        "PUT",
        "/test%24file.text",
        VHOST,
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        PUT_SHA256,
        date="Fri, 24 May 2013 00:00:00 GMT",
        x_amz_storage_class="REDUCED_REDUNDANCY",
    ),
    manual_head(
        "GET",
        "/?lifecycle",
        VHOST,
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        EMPTY_SHA256,
    ),
    manual_head(
        "GET",
        "/?max-keys=2&prefix=J",
        VHOST,
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        EMPTY_SHA256,
    ),
]


@pytest.mark.parametrize("head", MANUAL, ids=["get", "put", "lifecycle", "list"])
def test_verify__examples_of_the_manual__are_accepted(head: RequestHead) -> None:
    verified = verify(head, MANUAL_STORE, posix_s(MANUAL_DATE), "us-east-1")

    assert verified.principal.access_key == MANUAL_KEY
    assert verified.payload.sha256_hex == head.get("x-amz-content-sha256")


def test_verify__presigned_example_of_the_manual__is_accepted() -> None:
    query = (
        "X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )
    head = RequestHead("GET", "/test.txt", query, (("host", VHOST),))

    verified = verify(head, MANUAL_STORE, posix_s(MANUAL_DATE) + 86_400, "us-east-1")

    assert verified.presigned
    assert verified.payload.mode is PayloadMode.UNSIGNED
    assert verified.expires_s == posix_s(MANUAL_DATE) + 86_400


PAYLOAD = b"a" * 66_560
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
TRAILER_SIGNATURE = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"


def chunked_head(seed: str, mode: str, **extra: str) -> RequestHead:
    return manual_head(
        "PUT",
        "/examplebucket/chunkObject.txt",
        "s3.amazonaws.com",
        seed,
        mode,
        content_encoding="aws-chunked",
        x_amz_decoded_content_length="66560",
        x_amz_storage_class="REDUCED_REDUNDANCY",
        **extra,
    )


def framed(signatures: tuple[str, str, str], ending: bytes = b"\r\n") -> bytes:
    first, second, last = (signature.encode() for signature in signatures)
    return (
        b"10000;chunk-signature=%b\r\n%b\r\n400;chunk-signature=%b\r\n%b\r\n0;chunk-signature=%b\r\n"
        % (first, PAYLOAD[:65_536], second, PAYLOAD[65_536:], last)
    ) + ending


def decoded(head: RequestHead, body: bytes, *trailers: str) -> tuple[bytes, dict[str, str]]:
    verified = verify(head, MANUAL_STORE, posix_s(MANUAL_DATE), "us-east-1")
    decoder = AwsChunkedDecoder(verified.chunk_chain(), trailers, len(PAYLOAD))
    payload = b"".join(decoder.feed(body))
    return payload, dict(decoder.finish())


SIGNED_HEAD = chunked_head(SEED, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", content_length="66824")
TRAILER_HEAD = chunked_head(
    TRAILER_SEED,
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    x_amz_trailer="x-amz-checksum-crc32c",
)


def test_chunks__signed_example_of_the_manual__decodes() -> None:
    body = framed(CHUNKS)

    assert len(body) == 66_824  # the example's Content-Length
    assert decoded(SIGNED_HEAD, body) == (PAYLOAD, {})


@pytest.mark.parametrize("separator", [b"\r\n", b"\n\r\n"], ids=["crlf", "lf-crlf"])
def test_chunks__trailer_example_of_the_manual__decodes(separator: bytes) -> None:
    # The manual's text shows "\n" at the end of the trailer and CRLF behind it.
    ending = (
        b"x-amz-checksum-crc32c:sOO8/Q=="
        + separator
        + b"x-amz-trailer-signature:"
        + TRAILER_SIGNATURE.encode()
        + b"\r\n\r\n"
    )

    payload, trailers = decoded(
        TRAILER_HEAD, framed(TRAILER_CHUNKS, ending), "x-amz-checksum-crc32c"
    )

    assert payload == PAYLOAD
    assert trailers == {"x-amz-checksum-crc32c": "sOO8/Q=="}


@pytest.mark.parametrize("place", range(3))
def test_chunks__one_signature_of_the_chain_changed__is_refused(place: int) -> None:
    signatures = list(CHUNKS)
    signatures[place] = signatures[place][:-1] + f"{int(signatures[place][-1], 16) ^ 1:x}"

    with pytest.raises(ClientError) as caught:
        decoded(SIGNED_HEAD, framed(tuple(signatures)))  # type: ignore[arg-type]

    assert caught.value.code is S3Code.SIGNATURE_DOES_NOT_MATCH


def test_chunks__payload_changed_or_chunks_swapped__is_refused() -> None:
    for body in (
        framed(CHUNKS).replace(b"aaaa\r\n400", b"aaab\r\n400"),
        framed((CHUNKS[1], CHUNKS[0], CHUNKS[2])),
    ):
        with pytest.raises(ClientError) as caught:
            decoded(SIGNED_HEAD, body)
        assert caught.value.code is S3Code.SIGNATURE_DOES_NOT_MATCH


def test_chunks__signed_trailer_changed_or_unsigned__is_refused() -> None:
    signature = b"x-amz-trailer-signature:" + TRAILER_SIGNATURE.encode() + b"\r\n"
    for ending, code in (
        (b"x-amz-checksum-crc32c:sOO8/A==\r\n" + signature, S3Code.SIGNATURE_DOES_NOT_MATCH),
        (b"x-amz-checksum-crc32c:sOO8/Q==\r\n", S3Code.MALFORMED_TRAILER),
    ):
        with pytest.raises(ClientError) as caught:
            decoded(TRAILER_HEAD, framed(TRAILER_CHUNKS, ending + b"\r\n"), "x-amz-checksum-crc32c")
        assert caught.value.code is code


def test_derive_signing_key__example_of_the_general_reference__matches() -> None:
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
    scope = Scope("20120215", "us-east-1", "iam")

    key = derive_signing_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", scope)

    assert key.hex() == "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d"
