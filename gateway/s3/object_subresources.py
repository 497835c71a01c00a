"""Requests on an object's sub-resources: attributes, acl, tagging, retention and legal hold."""

from __future__ import annotations

from gateway.s3 import headers
from gateway.s3.addressed import Addressed, method_not_allowed
from gateway.s3.object_requests import get_attributes
from gateway.s3.operations import (
    DeleteObjectTagging,
    GetObjectAcl,
    GetObjectLegalHold,
    GetObjectRetention,
    GetObjectTagging,
    Operation,
    PutObjectAcl,
    PutObjectLegalHold,
    PutObjectRetention,
    PutObjectTagging,
)
from gateway.wire.grants import parse_acl_headers


def subresource(request: Addressed, name: str) -> Operation | None:
    """What a request on a sub-resource asks for, or None where this gateway has no such thing.

    Raises MethodNotAllowed for what it has, but S3 has no such request on.
    """
    head = request.head
    address = (request.bucket, request.key, request.query.version_id())
    match head.method, name:
        case "GET", "attributes":
            return get_attributes(request)
        case "GET", "acl":
            return GetObjectAcl(*address)
        case "PUT", "acl":
            return PutObjectAcl(*address, acl=parse_acl_headers(head))
        case "GET", "tagging":
            return GetObjectTagging(*address)
        case "PUT", "tagging":
            return PutObjectTagging(*address)
        case "DELETE", "tagging":
            return DeleteObjectTagging(*address)
        case "GET", "retention":
            return GetObjectRetention(*address)
        case "PUT", "retention":
            return PutObjectRetention(*address, bypass_governance=headers.bypass_governance(head))
        case "GET", "legal-hold":
            return GetObjectLegalHold(*address)
        case "PUT", "legal-hold":
            return PutObjectLegalHold(*address)
        case method, "acl" | "attributes" | "legal-hold" | "retention" | "tagging":
            raise method_not_allowed(method, "OBJECT")
        case _:
            return None
