"""Pieces that S3's XML documents and reply headers share."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate
from xml.etree.ElementTree import Element

from gateway.s3.query import invalid_argument
from gateway.storage.port import ObjectInfo
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.xml import element, url_encode

_NS_PER_S = 1_000_000_000

# Everything in a gateway belongs to one owner; S3's ids are 64 hex digits, and never change.
OWNER_ID = "5e0f7f3c2d1b49a8867a4c0b1d2e3f405162738495a6b7c8d9eaf0b1c2d3e4f5"
OWNER_NAME = "s3rdma"


def leaf(name: str, value: str | int) -> Element:
    """An element with text only."""
    return element(name, text=str(value))


def truth(name: str, value: bool) -> Element:
    """An xs:boolean."""
    return element(name, text="true" if value else "false")


def owner(name: str = "Owner") -> Element:
    """The owner of everything, as Owner, Initiator or Grantee."""
    return element(name, leaf("ID", OWNER_ID), leaf("DisplayName", OWNER_NAME))


def iso_time(time_ns: int) -> str:
    """A document's time stamp: whole seconds like the Last-Modified header, so both compare."""
    moment = time.gmtime(time_ns // _NS_PER_S)
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", moment)


def http_date(time_ns: int) -> str:
    """A header's time stamp (RFC 9110 section 5.6.7)."""
    return formatdate(time_ns // _NS_PER_S, usegmt=True)


def quoted(etag: str) -> str:
    """An ETag as headers and documents carry it."""
    return f'"{etag}"'


def checksum_headers(
    checksums: Mapping[Algorithm, str], kind: ChecksumType | None
) -> Iterator[tuple[str, str]]:
    """``x-amz-checksum-<algorithm>`` for each, and the type beside them where there is one."""
    for algorithm, value in checksums.items():
        yield algorithm.header, value
    if checksums and kind is not None:
        yield "x-amz-checksum-type", kind.value


def checksum_elements(
    checksums: Mapping[Algorithm, str], kind: ChecksumType | None
) -> Iterator[Element]:
    """``Checksum<ALGORITHM>`` for each, and ChecksumType beside them where there is one."""
    for algorithm, value in checksums.items():
        yield leaf(algorithm.element, value)
    if checksums and kind is not None:
        yield leaf("ChecksumType", kind.value)


def object_facts(info: ObjectInfo) -> Iterator[Element]:
    """What every list says of an object, between its name and its owner."""
    yield leaf("LastModified", iso_time(info.modified_ns))
    yield leaf("ETag", quoted(info.etag))
    for algorithm in info.checksums:
        yield leaf("ChecksumAlgorithm", algorithm.label)
    if info.checksums:
        yield leaf("ChecksumType", info.checksum_type.value)
    yield leaf("Size", info.size_bytes)
    yield leaf("StorageClass", info.attributes.storage_class)


def shown(encode: bool) -> Callable[[str], str]:
    """How a list shows keys, prefixes and markers: encoding-type=url, or as they are."""
    return url_encode if encode else str


def common_prefixes(prefixes: tuple[str, ...], show: Callable[[str], str]) -> Iterator[Element]:
    """One CommonPrefixes element each, as S3 does."""
    return (element("CommonPrefixes", leaf("Prefix", show(prefix))) for prefix in prefixes)


def encoding_type(encode: bool) -> Iterator[Element]:
    """EncodingType, only where it was asked for."""
    if encode:
        yield leaf("EncodingType", "url")


def continuation_token(after: str) -> str:
    """An opaque token for "everything after this"."""
    return base64.urlsafe_b64encode(after.encode("utf-8")).decode("ascii")


def resume_after(token: str) -> str:
    """What `continuation_token` was made of. InvalidArgument for what it never made."""
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, ValueError) as error:
        raise invalid_argument(
            "continuation-token", token, "The continuation token provided is incorrect"
        ) from error
