"""A request whose address and query are decoded: what the parsers of operations start from."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.s3.query import Query
from gateway.wire.request import RequestHead


@dataclass(frozen=True, slots=True)
class Addressed:
    """A head with its decoded address. `key` is "" for a bucket's own operations."""

    head: RequestHead
    query: Query
    bucket: str
    key: str
    limits: HttpLimits


def method_not_allowed(method: str, resource: str) -> ClientError:
    """405 with the elements S3 adds to it; `resource` is SERVICE, BUCKET, OBJECT or UPLOAD."""
    return ClientError(
        S3Code.METHOD_NOT_ALLOWED, details={"Method": method, "ResourceType": resource}
    )
