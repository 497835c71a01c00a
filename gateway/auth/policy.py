"""Who may do what: default deny; the gateway's own keys may do everything."""

from __future__ import annotations

from gateway.auth.principal import Principal
from gateway.errors import ClientError, S3Code


def authorise(principal: Principal, action: str, bucket: str | None, key: str | None) -> None:
    """Let a principal do something, or refuse.

    Every access key that the operator configured owns every bucket, and nobody else has any right.

    Args:
        principal: from `sigv4.verify`.
        action: S3's name of it, ``s3:GetObject``.
        bucket: None where the action concerns no bucket.
        key: None where it concerns no object.

    Raises:
        ClientError: AccessDenied.
    """
    if principal.anonymous:
        resource = "/".join(part for part in (bucket, key) if part is not None)
        raise ClientError(
            S3Code.ACCESS_DENIED,
            f"Access Denied: {action} on /{resource} needs a request signed with an access key.",
        )
