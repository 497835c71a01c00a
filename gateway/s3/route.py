"""A request head becomes an operation: the one place that knows S3's URLs.

Pure: everything comes from the raw path, the raw query and the header fields. The tables follow
https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
"""

from __future__ import annotations

from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.s3 import (
    bucket_requests,
    headers,
    list_parameters,
    object_requests,
    object_subresources,
)
from gateway.s3.addressed import Addressed, method_not_allowed
from gateway.s3.operations import (
    DeleteBucket,
    GetBucketLocation,
    HeadBucket,
    ListBuckets,
    Operation,
    PostObject,
)
from gateway.s3.query import Query
from gateway.wire.form_data import is_form
from gateway.wire.names import check_bucket_name, check_key
from gateway.wire.request import RequestHead, decode_path

_LIMITS = HttpLimits()
_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


def route(
    head: RequestHead, domains: tuple[str, ...] = (), limits: HttpLimits = _LIMITS
) -> Operation:
    """The operation a request asks for, with everything its head says.

    Args:
        head: as received.
        domains: host names under which ``<bucket>.<domain>`` addresses a bucket.
        limits: bounds on keys and metadata.

    Raises:
        ClientError: InvalidURI, InvalidBucketName, KeyTooLongError, InvalidArgument,
            MethodNotAllowed, NotImplemented (naming the sub-resource or header), ….
    """
    raw_bucket, raw_key = _locate(head, domains)
    query = Query.parse(head.raw_query)
    if raw_bucket is None:
        return _service_operation(head, query)
    bucket, key = decode_path(raw_bucket), decode_path(raw_key)
    check_bucket_name(bucket)
    check_key(key, limits.max_key_bytes)
    headers.refuse_unserved(head)
    request = Addressed(head, query, bucket, key, limits)
    return _object_operation(request) if key else _bucket_operation(request)


def bucket_of(head: RequestHead, domains: tuple[str, ...] = ()) -> str | None:
    """The bucket that a request's address names, be it there or not; None where it names none."""
    raw_bucket, _ = _locate(head, domains)
    try:
        return None if raw_bucket is None else decode_path(raw_bucket)
    except ClientError:
        return None


def _locate(head: RequestHead, domains: tuple[str, ...]) -> tuple[str | None, str]:
    """(raw bucket or None for the service itself, raw key), from the host or else from the path."""
    path = head.raw_path.removeprefix("/")  # one slash only: "//x" is the key "/x" of a host
    host = (head.get("host") or "").partition(":")[0].lower()
    for domain in domains:
        bucket = host.removesuffix(f".{domain.lower()}")
        if bucket != host:
            return bucket, path
    if not path:
        return None, ""
    bucket, _, key = path.partition("/")
    return bucket, key


def _service_operation(head: RequestHead, query: Query) -> ListBuckets:
    if head.method != "GET":
        raise method_not_allowed(head.method, "SERVICE")
    return list_parameters.list_buckets(query)


def _bucket_operation(request: Addressed) -> Operation:
    bucket = request.bucket
    match request.head.method, request.query.subresource():
        case "GET", None:
            return list_parameters.list_objects(request)
        case "GET", "versions":
            return list_parameters.list_versions(request)
        case "GET", "uploads":
            return list_parameters.list_uploads(request)
        case "GET", "location":
            return GetBucketLocation(bucket)
        case "PUT", None:
            return bucket_requests.create_bucket(request)
        case "HEAD", None:
            return HeadBucket(bucket)
        case "DELETE", None:
            return DeleteBucket(bucket)
        case "POST", None:
            return _post_object(request)
        case "POST", "delete":
            return bucket_requests.delete_objects(request)
        case method, str(name):
            wanted = bucket_requests.subresource(request, name)
            if wanted is None:
                raise _refusal(method, name, "BUCKET")
            return wanted
        case method, name:
            raise _refusal(method, name, "BUCKET")


def _post_object(request: Addressed) -> PostObject:
    if not is_form(request.head):
        raise ClientError(
            S3Code.PRECONDITION_FAILED,
            "Bucket POST must be of the enclosure-type multipart/form-data",
        )
    return PostObject(request.bucket)


def _object_operation(request: Addressed) -> Operation:
    query = request.query
    subresource = query.subresource()
    if subresource is None and query.get("uploadId") is not None:
        return object_requests.upload_operation(request)
    match request.head.method, subresource:
        case "GET", None:
            return object_requests.get_object(request)
        case "HEAD", None:
            return object_requests.head_object(request)
        case "PUT", None:
            return object_requests.put_or_copy_object(request)
        case "DELETE", None:
            return object_requests.delete_object(request)
        case "POST", "uploads":
            return object_requests.create_upload(request)
        case "GET", "torrent":
            raise ClientError(S3Code.NO_SUCH_KEY, "There is no torrent of this object.")
        case method, str(name):
            wanted = object_subresources.subresource(request, name)
            if wanted is None:
                raise _refusal(method, name, "OBJECT")
            return wanted
        case method, name:
            raise _refusal(method, name, "OBJECT")


def _refusal(method: str, subresource: str | None, resource: str) -> ClientError:
    """501 for what S3 can do and this gateway can't, 405 for what neither can."""
    if subresource is None or method not in _METHODS:
        return method_not_allowed(method, resource)
    return ClientError(S3Code.NOT_IMPLEMENTED, f"{method} ?{subresource} is not implemented.")
