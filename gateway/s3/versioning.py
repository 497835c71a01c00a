"""Whether a bucket keeps the versions of its objects.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketVersioning.html
"""

from __future__ import annotations

from dataclasses import replace

from gateway.errors import ClientError, S3Code
from gateway.s3.body import Body
from gateway.s3.context import Context
from gateway.s3.documents import leaf
from gateway.s3.operations import GetBucketVersioning, PutBucketVersioning
from gateway.s3.results import Reply, XmlReply
from gateway.storage.port import BucketInfo, Versioning
from gateway.wire.xml import Children, document, malformed, parse_xml

_ROOT = "VersioningConfiguration"


async def get_bucket_versioning(operation: GetBucketVersioning, context: Context) -> XmlReply:
    """Empty where versioning was never switched on."""
    bucket = await context.storage.head_bucket(operation.bucket)
    root = document(_ROOT)
    if bucket.versioning is not Versioning.OFF:
        root.append(leaf("Status", bucket.versioning.value))
    return XmlReply(root=root)


async def put_bucket_versioning(
    operation: PutBucketVersioning, body: Body, context: Context
) -> Reply:
    """Switch it on, or suspend it; it can't be undone.

    Raises:
        ClientError: MalformedXML; NotImplemented for MFA delete; InvalidBucketState for suspending
            what object lock needs.
    """
    wanted = _parse(await body.read(context.limits.max_xml_bytes), context.limits.max_xml_bytes)

    def change(bucket: BucketInfo) -> BucketInfo:
        if bucket.object_lock and wanted is Versioning.SUSPENDED:
            raise ClientError(
                S3Code.INVALID_BUCKET_STATE,
                "An Object Lock configuration is present on this bucket, so the versioning state "
                "cannot be changed.",
            )
        return replace(bucket, versioning=wanted)

    await context.storage.update_bucket(operation.bucket, change)
    return Reply()


def _parse(data: bytes, limit_bytes: int) -> Versioning:
    root = parse_xml(data, limit_bytes)
    if root.tag != _ROOT:
        raise malformed(f"The document must be a {_ROOT}.")
    given = Children(root, once=("Status", "MfaDelete"))
    if given.text("MfaDelete") == "Enabled":
        raise ClientError(S3Code.NOT_IMPLEMENTED, "MfaDelete is not implemented.")
    match given.need_text("Status"):
        case "Enabled":
            return Versioning.ENABLED
        case "Suspended":
            return Versioning.SUSPENDED
        case _:
            raise malformed("Status must be Enabled or Suspended.")
