"""Tags of buckets and objects: the rules, the header, and the document. Pure.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from xml.etree.ElementTree import Element

from gateway.errors import ClientError, S3Code
from gateway.wire.request import decode_query
from gateway.wire.xml import Children, document, element, malformed, parse_xml

MAX_OBJECT_TAGS = 10
MAX_BUCKET_TAGS = 50
_MAX_KEY_CHARS = 128
_MAX_VALUE_CHARS = 256
_RESERVED_PREFIX = "aws:"  # S3's own, which no request may set
_PUNCTUATION = frozenset("_.:/=+-@")
_CATEGORIES = frozenset("LNZ")  # of Unicode: letters, numbers, separators

Tags = tuple[tuple[str, str], ...]
"""(key, value) pairs, no key twice, sorted by key as S3 gives them back."""


def checked_tags(pairs: Iterable[tuple[str, str]], most: int = MAX_OBJECT_TAGS) -> Tags:
    """The pairs, if S3 would take them.

    Raises:
        ClientError: InvalidTag: more than `most`, a key twice, a length or a character that tags
            may not have.
    """
    tags: dict[str, str] = {}
    for key, value in pairs:
        if key in tags:
            raise _invalid("Cannot provide multiple Tags with the same key", key)
        if not 1 <= len(key) <= _MAX_KEY_CHARS or not _allowed(key):
            raise _invalid("The TagKey you have provided is invalid", key)
        if key.lower().startswith(_RESERVED_PREFIX):
            raise _invalid("System tags cannot be added/updated by requester", key)
        if len(value) > _MAX_VALUE_CHARS or not _allowed(value):
            raise _invalid("The TagValue you have provided is invalid", key)
        tags[key] = value
    if len(tags) > most:
        raise ClientError(S3Code.INVALID_TAG, f"There may be at most {most} tags.")
    return tuple(sorted(tags.items()))


def _allowed(text: str) -> bool:
    return all(
        char in _PUNCTUATION or unicodedata.category(char)[0] in _CATEGORIES for char in text
    )


def _invalid(message: str, key: str) -> ClientError:
    return ClientError(S3Code.INVALID_TAG, message, details={"TagKey": key[:_MAX_KEY_CHARS]})


def parse_tagging_header(text: str) -> Tags:
    """x-amz-tagging: a form-encoded list of an object's tags. Raises InvalidTag."""
    try:
        return checked_tags(decode_query(text))
    except ClientError as error:
        if error.code is S3Code.INVALID_TAG:
            raise
        raise ClientError(S3Code.INVALID_TAG, "x-amz-tagging is not well encoded.") from error


def parse_tagging(data: bytes, limit_bytes: int, most: int = MAX_OBJECT_TAGS) -> Tags:
    """A Tagging document, of a body or of a form's field.

    Raises:
        ClientError: MalformedXML, MaxMessageLengthExceeded, InvalidTag.
    """
    return read_tagging(parse_xml(data, limit_bytes), most)


def read_tagging(root: Element, most: int) -> Tags:
    """The tags of a parsed Tagging document. Raises MalformedXML, InvalidTag."""
    if root.tag != "Tagging":
        raise malformed("The document must be a Tagging.")
    return read_tag_set(Children(root, once=("TagSet",)).need("TagSet"), most)


def read_tag_set(tag_set: Element, most: int) -> Tags:
    """The tags of an element that holds Tag elements. Raises MalformedXML, InvalidTag."""
    pairs = (
        Children(tag, once=("Key", "Value"))
        for tag in Children(tag_set, several=("Tag",)).each("Tag")
    )
    return checked_tags(((pair.need_text("Key"), pair.need_text("Value")) for pair in pairs), most)


def tagging_document(tags: Tags) -> Element:
    """The Tagging document of these tags."""
    shown = (
        element("Tag", element("Key", text=key), element("Value", text=value))
        for key, value in tags
    )
    return document("Tagging", element("TagSet", *shown))
