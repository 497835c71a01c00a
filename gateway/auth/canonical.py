"""SigV4's canonical request, made from the request as it stood on the wire.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html

S3's own rules: path and query are decoded and encoded exactly once and never normalised, so "//",
"." and ".." in a key stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from gateway.errors import ClientError, S3Code
from gateway.wire.request import RequestHead, decode_bytes, parse_query

# What encodes to itself: most paths and parameters, so they need no work at all.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9\-._~/]*")
_PLAIN = re.compile(r"[A-Za-z0-9\-._~]*")
_BLANKS = re.compile(r"[ \t]+")  # not \s: in latin-1 text 0xA0 is half of a UTF-8 letter


def canonical_request(
    head: RequestHead,
    signed_headers: Sequence[str],
    payload_hash: str,
    omit_parameter: str | None = None,
) -> bytes:
    """The text whose SHA-256 is signed.

    Args:
        head: the request.
        signed_headers: lower-case names, in the client's order.
        payload_hash: x-amz-content-sha256 word for word, or what stands for it.
        omit_parameter: a query parameter to leave out: a presigned URL's own signature.

    Raises:
        ClientError: InvalidURI: path or query can't be decoded; SignatureDoesNotMatch: a signed
            header is missing from the request.
    """
    return (
        f"{head.method}\n{canonical_path(head.raw_path)}\n"
        f"{canonical_query(head.raw_query, omit_parameter)}\n"
        f"{_canonical_headers(head, signed_headers)}\n{';'.join(signed_headers)}\n{payload_hash}"
    ).encode("latin-1")


def canonical_path(raw_path: str) -> str:
    """The path, decoded and encoded once: "(" becomes "%28", "%7e" becomes "~"."""
    if _PLAIN_PATH.fullmatch(raw_path):
        return raw_path
    return quote(decode_bytes(raw_path), safe="/")


def canonical_query(raw_query: str, omit_parameter: str | None = None) -> str:
    """The parameters, decoded and encoded once, sorted by encoded name, then value.

    "+" is a space, as in all of S3's queries; ``?versioning`` becomes ``versioning=``.
    """
    if not raw_query:
        return ""
    pairs = sorted((_encode(name), _encode(value)) for name, value in parse_query(raw_query))
    return "&".join(f"{name}={value}" for name, value in pairs if name != omit_parameter)


def _encode(raw: str) -> str:
    if _PLAIN.fullmatch(raw):
        return raw
    return quote(decode_bytes(raw.replace("+", " ")), safe="")


def _canonical_headers(head: RequestHead, names: Sequence[str]) -> str:
    values: dict[str, str] = {}
    for name, value in head.headers:
        text = _BLANKS.sub(" ", value).strip(" ") if "  " in value or "\t" in value else value
        values[name] = f"{values[name]},{text}" if name in values else text
    try:
        return "".join(f"{name}:{values[name]}\n" for name in names)
    except KeyError as error:
        raise ClientError(
            S3Code.SIGNATURE_DOES_NOT_MATCH,
            f"SignedHeaders names a header that the request does not carry: {error.args[0]}",
        ) from error
