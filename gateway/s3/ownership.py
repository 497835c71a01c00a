"""Who owns an object that somebody writes into another's bucket, and whether ACLs count there.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/about-object-ownership.html
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from xml.etree.ElementTree import Element

from gateway.errors import ClientError, S3Code
from gateway.s3.documents import leaf, stored_document
from gateway.storage.port import BucketInfo
from gateway.wire.xml import Children, document, element, malformed

SETTING = "ownershipControls"
ROOT = "OwnershipControls"


class ObjectOwnership(Enum):
    """S3's three settings. A bucket without one behaves as OBJECT_WRITER: ACLs count."""

    BUCKET_OWNER_ENFORCED = "BucketOwnerEnforced"
    BUCKET_OWNER_PREFERRED = "BucketOwnerPreferred"
    OBJECT_WRITER = "ObjectWriter"


def object_ownership(bucket: BucketInfo) -> ObjectOwnership:
    """A bucket's setting."""
    return _parsed(bucket.settings.get(SETTING, ""))


@lru_cache(maxsize=256)
def _parsed(text: str) -> ObjectOwnership:
    root = stored_document(text)
    return ObjectOwnership.OBJECT_WRITER if root is None else _ownership(root)


def _ownership(root: Element) -> ObjectOwnership:
    rule = Children(root, once=("Rule",)).need("Rule")
    word = Children(rule, once=("ObjectOwnership",)).need_text("ObjectOwnership")
    try:
        return ObjectOwnership(word)
    except ValueError as error:
        raise malformed("ObjectOwnership is none of S3's three words.") from error


def read_ownership_controls(root: Element) -> Element:
    """The document to store for one that was sent. Raises MalformedXML."""
    return ownership_controls(_ownership(root))


def ownership_controls(ownership: ObjectOwnership) -> Element:
    """The document that says so."""
    return document(ROOT, element("Rule", leaf("ObjectOwnership", ownership.value)))


def admit_ownership(bucket: BucketInfo) -> BucketInfo:
    """The bucket with its new setting, unless its ACL would silently stop to count."""
    if object_ownership(bucket) is ObjectOwnership.BUCKET_OWNER_ENFORCED and bucket.grants:
        raise ClientError(S3Code.INVALID_BUCKET_ACL_WITH_OBJECT_OWNERSHIP)
    return bucket
