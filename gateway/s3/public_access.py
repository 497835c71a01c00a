"""publicAccessBlock: a bucket's four switches against public access.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from xml.etree.ElementTree import Element

from gateway.s3.documents import read_truth, stored_document, truth
from gateway.storage.port import BucketInfo
from gateway.wire.xml import Children, document

SETTING = "publicAccessBlock"
ROOT = "PublicAccessBlockConfiguration"


@dataclass(frozen=True, slots=True)
class PublicAccess:
    """What is held back.

    Attributes:
        block_acls: requests that would set a public ACL are refused.
        ignore_acls: public grants have no effect.
        block_policy: a policy that makes the bucket public is refused.
        restrict_buckets: a public policy lets in none but the owner's own account.
    """

    block_acls: bool = False
    ignore_acls: bool = False
    block_policy: bool = False
    restrict_buckets: bool = False


_ELEMENTS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")


def public_access(bucket: BucketInfo) -> PublicAccess:
    """A bucket's switches; all are off where none were set."""
    return _parsed(bucket.settings.get(SETTING, ""))


@lru_cache(maxsize=256)
def _parsed(text: str) -> PublicAccess:
    root = stored_document(text)
    return PublicAccess() if root is None else _switches(root)


def _switches(root: Element) -> PublicAccess:
    given = Children(root, once=_ELEMENTS)
    texts = (given.text(name) for name in _ELEMENTS)
    return PublicAccess(*(text is not None and read_truth(text) for text in texts))


def read_public_access_block(root: Element) -> Element:
    """The document to store for one that was sent: all four switches. Raises MalformedXML."""
    switches = _switches(root)
    values = (
        switches.block_acls,
        switches.ignore_acls,
        switches.block_policy,
        switches.restrict_buckets,
    )
    return document(ROOT, *map(truth, _ELEMENTS, values))
