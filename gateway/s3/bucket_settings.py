"""Every sub-resource of a bucket that is a document of its own: one row each. Pure.

A row says what S3 calls the actions, what GET answers while nothing is stored, and which documents
are taken. What this gateway does not do is not promised: such a row takes only the document that
says "off", or none, and the refusal tells why.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html (actions)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from xml.etree.ElementTree import Element

from gateway.errors import ClientError, S3Code
from gateway.s3 import cors, object_lock, ownership, public_access
from gateway.s3.documents import leaf
from gateway.s3.tagging import MAX_BUCKET_TAGS, read_tagging, tagging_document
from gateway.storage.port import BucketInfo
from gateway.wire.xml import Children, document


def _as_it_is(bucket: BucketInfo) -> BucketInfo:
    return bucket


@dataclass(frozen=True, slots=True)
class Setting:
    """One sub-resource.

    Attributes:
        root: the root element of its document.
        absent: what GET answers while nothing is stored: an error's row, or a document.
        read: a parsed document, checked, as it is stored; raises ClientError.
        get / put / delete: S3's names of the actions; "" where there is nothing to delete.
        admit: the bucket with the new document in place, changed further or refused; runs in the
            step that stores.
    """

    root: str
    absent: S3Code | Callable[[BucketInfo], Element]
    read: Callable[[Element], Element]
    get: str
    put: str
    delete: str = ""
    admit: Callable[[BucketInfo], BucketInfo] = _as_it_is

    def answer_absent(self, bucket: BucketInfo) -> Element:
        """What GET answers while nothing is stored. Raises S3's 404 where that is an error."""
        if isinstance(self.absent, S3Code):
            raise ClientError(self.absent, details={"BucketName": bucket.name})
        return self.absent(bucket)


def _default(root: str, *children: tuple[str, str]) -> Callable[[BucketInfo], Element]:
    """A document that says what is so in every bucket."""
    return lambda _bucket: document(root, *(leaf(name, text) for name, text in children))


def _refuse(why: str, _root: Element) -> Element:
    raise ClientError(S3Code.NOT_IMPLEMENTED, why)


def _refused(why: str) -> Callable[[Element], Element]:
    """No document is taken."""
    return partial(_refuse, why)


def _only(why: str, **allowed: str) -> Callable[[Element], Element]:
    """Only the document with these texts, or an empty one, is taken: it says what is so."""

    def read(root: Element) -> Element:
        if any(child.tag not in allowed for child in root):
            raise ClientError(S3Code.NOT_IMPLEMENTED, why)
        given = Children(root, once=allowed)
        for name, text in allowed.items():
            if given.text(name) not in (None, text):
                raise ClientError(S3Code.NOT_IMPLEMENTED, why)
        return document(root.tag, *(leaf(child.tag, child.text or "") for child in root))

    return read


def _read_bucket_tagging(root: Element) -> Element:
    return tagging_document(read_tagging(root, MAX_BUCKET_TAGS))


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        "accelerate": Setting(
            root="AccelerateConfiguration",
            absent=_default("AccelerateConfiguration"),
            # Clients that know of it send Suspended to be sure.
            read=_only("There are no accelerated endpoints here.", Status="Suspended"),
            get="s3:GetAccelerateConfiguration",
            put="s3:PutAccelerateConfiguration",
        ),
        cors.SETTING: Setting(
            root=cors.ROOT,
            absent=S3Code.NO_SUCH_CORS_CONFIGURATION,
            read=cors.read_cors,
            get="s3:GetBucketCORS",
            put="s3:PutBucketCORS",
            delete="s3:PutBucketCORS",
        ),
        "encryption": Setting(
            root="ServerSideEncryptionConfiguration",
            absent=S3Code.ENCRYPTION_NOT_FOUND,
            # Whoever sets it relies on it.
            read=_refused("Objects are stored as they are: this gateway does not encrypt."),
            get="s3:GetEncryptionConfiguration",
            put="s3:PutEncryptionConfiguration",
            delete="s3:PutEncryptionConfiguration",
        ),
        "lifecycle": Setting(
            root="LifecycleConfiguration",
            absent=S3Code.NO_SUCH_LIFECYCLE_CONFIGURATION,
            # A rule that never runs would keep data for ever that its owner thinks is gone.
            read=_refused("Lifecycle rules are not run here; expire objects by a client's job."),
            get="s3:GetLifecycleConfiguration",
            put="s3:PutLifecycleConfiguration",
            delete="s3:PutLifecycleConfiguration",
        ),
        "logging": Setting(
            root="BucketLoggingStatus",
            absent=_default("BucketLoggingStatus"),
            read=_only("Access logs are not written to buckets; the gateway's own log has them."),
            get="s3:GetBucketLogging",
            put="s3:PutBucketLogging",
        ),
        "notification": Setting(
            root="NotificationConfiguration",
            absent=_default("NotificationConfiguration"),
            read=_only("No events are sent; only an empty NotificationConfiguration is taken."),
            get="s3:GetBucketNotification",
            put="s3:PutBucketNotification",
        ),
        object_lock.SETTING: Setting(
            root=object_lock.ROOT,
            absent=object_lock.object_lock_unset,
            read=object_lock.read_object_lock,
            get="s3:GetBucketObjectLockConfiguration",
            put="s3:PutBucketObjectLockConfiguration",
            admit=object_lock.admit_object_lock,
        ),
        ownership.SETTING: Setting(
            root=ownership.ROOT,
            absent=S3Code.OWNERSHIP_CONTROLS_NOT_FOUND,
            read=ownership.read_ownership_controls,
            get="s3:GetBucketOwnershipControls",
            put="s3:PutBucketOwnershipControls",
            delete="s3:PutBucketOwnershipControls",
            admit=ownership.admit_ownership,
        ),
        public_access.SETTING: Setting(
            root=public_access.ROOT,
            absent=S3Code.NO_SUCH_PUBLIC_ACCESS_BLOCK,
            read=public_access.read_public_access_block,
            get="s3:GetBucketPublicAccessBlock",
            put="s3:PutBucketPublicAccessBlock",
            delete="s3:PutBucketPublicAccessBlock",
        ),
        "replication": Setting(
            root="ReplicationConfiguration",
            absent=S3Code.REPLICATION_NOT_FOUND,
            # Whoever sets it relies on a copy elsewhere.
            read=_refused("Objects are not replicated to other buckets."),
            get="s3:GetReplicationConfiguration",
            put="s3:PutReplicationConfiguration",
            delete="s3:PutReplicationConfiguration",
        ),
        "requestPayment": Setting(
            root="RequestPaymentConfiguration",
            absent=_default("RequestPaymentConfiguration", ("Payer", "BucketOwner")),
            read=_only("Nobody is charged here but the bucket's owner.", Payer="BucketOwner"),
            get="s3:GetBucketRequestPayment",
            put="s3:PutBucketRequestPayment",
        ),
        "tagging": Setting(
            root="Tagging",
            absent=S3Code.NO_SUCH_TAG_SET,
            read=_read_bucket_tagging,
            get="s3:GetBucketTagging",
            put="s3:PutBucketTagging",
            delete="s3:PutBucketTagging",
        ),
        "website": Setting(
            root="WebsiteConfiguration",
            absent=S3Code.NO_SUCH_WEBSITE_CONFIGURATION,
            read=_refused("Buckets are not served as web sites; put a web server before them."),
            get="s3:GetBucketWebsite",
            put="s3:PutBucketWebsite",
            delete="s3:DeleteBucketWebsite",
        ),
    }
)
