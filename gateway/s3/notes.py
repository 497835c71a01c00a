"""What a request's trail learns on the one path: what is asked, by whom, and what was answered."""

from __future__ import annotations

from gateway.auth.principal import Principal
from gateway.s3.operations import Operation
from gateway.s3.results import ObjectReply, Reply
from gateway.telemetry import Trail


def note_operation(known: Trail, operation: Operation) -> None:
    """What is asked for, by S3's name, and of what."""
    known.operation = type(operation).__name__
    known.bucket = getattr(operation, "bucket", "")
    known.key = getattr(operation, "key", "")
    known.version_id = getattr(operation, "version_id", None) or ""


def note_signer(known: Trail, principal: Principal, auth_type: str) -> None:
    """Who asks, now that it is proved, and by S3's word how it was."""
    if principal.access_key is None:
        return
    known.access_key, known.requester = principal.access_key, principal.user_id
    known.signature_version, known.auth_type = "SigV4", auth_type


def note_reply(known: Trail, reply: Reply) -> None:
    """How long the object is that was opened, and which version it was."""
    if isinstance(reply, ObjectReply):
        known.object_bytes = reply.reader.info.size_bytes
    known.version_id = reply.get("x-amz-version-id") or known.version_id
