"""POST of a form: its fields become the PutObject that they describe, and its reply another.

https://docs.aws.amazon.com/AmazonS3/latest/API/RESTObjectPOST.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from gateway.auth.post_policy import PROOFS, Fields
from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.s3 import headers
from gateway.s3.addressed import Addressed
from gateway.s3.documents import leaf
from gateway.s3.object_requests import put_or_copy_object
from gateway.s3.operations import PutObject
from gateway.s3.query import Query, invalid_argument
from gateway.s3.results import Reply, XmlReply
from gateway.s3.tagging import parse_tagging
from gateway.wire.form_data import FormFields
from gateway.wire.names import check_key
from gateway.wire.request import RequestHead
from gateway.wire.xml import element

# Fields that mean what the header of that name means on a PUT.
_HEADERS = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-md5",
        "content-type",
        "expires",
        "x-amz-acl",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-storage-class",
        "x-amz-website-redirect-location",
    }
)
_HEADER_FAMILIES = (
    "x-amz-checksum-",
    "x-amz-grant-",
    "x-amz-meta-",
    "x-amz-object-lock-",
    "x-amz-server-side-encryption",
)
_REQUESTS_OWN = frozenset({"host", "referer", "user-agent"})
_FILENAME = "${filename}"
_STATUSES = frozenset({200, 201, 204})
_REDIRECT = re.compile(r"https?://[!-~]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Post:
    """A form understood.

    Attributes:
        put: what to do with its file.
        head: the same as the headers of a PUT would have said it.
        status: what success is answered with where there is no redirect.
        redirect: where a browser is sent afterwards; "" for nowhere.
    """

    put: PutObject
    head: RequestHead
    status: int
    redirect: str


def form_fields(form: FormFields, bucket: str) -> Fields:
    """The fields as a policy judges them: the file's name filled in, and the bucket among them."""
    filename = re.split(r"[/\\]", form.filename)[-1]
    fields = {
        name: value if name in PROOFS else value.replace(_FILENAME, filename)
        for name, value in form.values.items()
    }
    return fields | {"bucket": bucket}


def read_post(fields: Fields, head: RequestHead, bucket: str, limits: HttpLimits) -> Post:
    """What a form asks for.

    Args:
        fields: as `form_fields` gives them.
        head: the request's.
        bucket: from its address.
        limits: of keys, metadata and tags.

    Raises:
        ClientError: InvalidArgument: no key, or a field that no header could carry; and as a PUT.
    """
    key = fields.get("key", "")
    if not key:
        raise invalid_argument(
            "key",
            "",
            "Bucket POST must contain a field named 'key'.  If it is specified, please check the "
            "order of the fields.",
        )
    check_key(key, limits.max_key_bytes)
    own = (field for field in head.headers if field[0] in _REQUESTS_OWN)
    as_put = replace(head, raw_query="", headers=(*own, *_as_headers(fields)))
    headers.refuse_unserved(as_put)
    put = put_or_copy_object(Addressed(as_put, Query({}), bucket, key, limits))
    if not isinstance(put, PutObject):
        raise ClientError(S3Code.INVALID_REQUEST, "A form can't copy.")
    tagging = fields.get("tagging")
    if tagging:
        tags = parse_tagging(tagging.encode("utf-8"), limits.max_xml_bytes)
        put = replace(put, attributes=replace(put.attributes, tags=tags))
    return Post(put, as_put, _status(fields), _redirect(fields))


def posted(reply: Reply, post: Post) -> Reply:
    """The form's reply, from the PutObject's."""
    put, etag = post.put, reply.get("etag") or ""
    kept = tuple(field for field in reply.headers if field[0] != "location")
    if post.redirect:
        query = urlencode({"bucket": put.bucket, "key": put.key, "etag": etag}, quote_via=quote)
        separator = "&" if "?" in post.redirect else "?"
        location = f"{post.redirect}{separator}{query}"
        return Reply(status=303, headers=(("location", location), *kept))
    location = _location(post)
    found = (("location", location), *kept)
    if post.status != 201:
        return Reply(status=post.status, headers=found)
    root = element(
        "PostResponse",
        leaf("Location", location),
        leaf("Bucket", put.bucket),
        leaf("Key", put.key),
        leaf("ETag", etag),
    )
    return XmlReply(status=201, headers=found, root=root)


def _location(post: Post) -> str:
    """The object's URL, addressed as the form was: by path, or by a host that names the bucket."""
    head, key = post.head, quote(post.put.key, safe="")
    origin = f"{'https' if head.secure else 'http'}://{head.get('host') or ''}"
    return f"{origin}/{key}" if head.raw_path == "/" else f"{origin}/{post.put.bucket}/{key}"


def _as_headers(fields: Fields) -> Iterator[tuple[str, str]]:
    """Fields as a PUT's headers: latin-1 text that stands for UTF-8 bytes."""
    for name, value in fields.items():
        header = "x-amz-acl" if name == "acl" else name
        if header not in _HEADERS and not header.startswith(_HEADER_FAMILIES):
            continue
        if _CONTROL.search(value):
            raise invalid_argument(name, "", f"The field {name} holds a control character.")
        yield header, value.strip(" \t").encode("utf-8").decode("latin-1")


def _status(fields: Fields) -> int:
    """204 for a status that may not be asked for, as S3 does."""
    text = fields.get("success_action_status", "")
    status = int(text) if text.isascii() and text.isdigit() and len(text) == 3 else 0
    return status if status in _STATUSES else 204


def _redirect(fields: Fields) -> str:
    """The URL; a field that is none counts as absent, as for S3."""
    url = fields.get("success_action_redirect") or fields.get("redirect") or ""
    return url if _REDIRECT.fullmatch(url) else ""
