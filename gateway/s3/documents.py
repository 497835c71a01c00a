"""Pieces that S3's XML documents and reply headers share."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate
from xml.etree.ElementTree import Element

from gateway.auth.accounts import Accounts
from gateway.auth.principal import GATEWAY_ACCOUNT, Account
from gateway.s3.query import invalid_argument
from gateway.storage.port import NULL_VERSION, ObjectInfo
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.xml import element, malformed, parse_xml, url_encode

_NS_PER_S = 1_000_000_000


def leaf(name: str, value: str | int) -> Element:
    """An element with text only."""
    return element(name, text=str(value))


def truth(name: str, value: bool) -> Element:
    """An xs:boolean."""
    return element(name, text="true" if value else "false")


def read_truth(text: str) -> bool:
    """The value of an xs:boolean. Raises MalformedXML."""
    match text.lower():
        case "true" | "1":
            return True
        case "false" | "0":
            return False
    raise malformed("A boolean must be true or false.")


def stored_document(text: str) -> Element | None:
    """The root of a document that storage keeps as text; None for "", where there is none."""
    data = text.encode("utf-8")
    return parse_xml(data, len(data)) if data else None


def owner(name: str = "Owner") -> Element:
    """The owner of everything, as Owner, Initiator or Grantee."""
    return element(
        name, leaf("ID", GATEWAY_ACCOUNT.user_id), leaf("DisplayName", GATEWAY_ACCOUNT.display_name)
    )


def owned_by(owner_id: str, accounts: Accounts, name: str = "Owner") -> Element:
    """An account as Owner, Initiator or Grantee; `owner_id` as storage records have it."""
    account = accounts.by_id(owner_id) or Account(owner_id, "")
    return element(name, leaf("ID", account.user_id), leaf("DisplayName", account.display_name))


def iso_time(time_ns: int) -> str:
    """A document's time stamp: whole seconds like the Last-Modified header, so both compare."""
    moment = time.gmtime(time_ns // _NS_PER_S)
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", moment)


def exact_time(time_ns: int) -> str:
    """A time stamp in milliseconds, which a client may send back without making it earlier."""
    whole = iso_time(time_ns).removesuffix(".000Z")
    return f"{whole}.{time_ns % _NS_PER_S // 1_000_000:03}Z"


def http_date(time_ns: int) -> str:
    """A header's time stamp (RFC 9110 section 5.6.7)."""
    return formatdate(time_ns // _NS_PER_S, usegmt=True)


def quoted(etag: str) -> str:
    """An ETag as headers and documents carry it."""
    return f'"{etag}"'


def version_header(info: ObjectInfo, name: str = "x-amz-version-id") -> Iterator[tuple[str, str]]:
    """The object's version, where it has one of its own; `name` is another for a copy's source."""
    if info.version_id != NULL_VERSION:
        yield name, info.version_id


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


def shown_delimiter(delimiter: str, show: Callable[[str], str]) -> Iterator[Element]:
    """Delimiter, only where there is one."""
    if delimiter:
        yield leaf("Delimiter", show(delimiter))


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
