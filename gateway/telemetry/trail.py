"""What becomes known of a request on its way, and who it is in whatever a room logs meanwhile.

One `Trail` belongs to each request. It lies in a context variable, so that a task started for the
request (a data phase, say) writes to the same one; nothing has to be handed through.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

SHOWN_ID_DIGITS = 8
"""Of a session or connection: enough to find it in the log, too few to use it."""


@dataclass(slots=True)
class Trail:
    """One request, as far as it has come. Texts are "" until they are known.

    Attributes:
        request_id: as the reply's x-amz-request-id has it.
        session: the first digits of its RDMA session or connection.
        operation: the name of what it asks for: S3's own, or RdmaPrepare and its like.
        bucket / key / version_id: what it names, decoded.
        bucket_owner: canonical user id, where the bucket is there.
        access_key: whose signature was verified; "" for an anonymous request.
        requester: the canonical user id behind it.
        auth_type / signature_version: S3's words for how it is signed.
        status: of the reply; 0 where none left.
        error: S3's code, where it failed.
        limit: the setting whose limit refused it.
        path: what moved the object's bytes: "http", "rdma" (a session), "rc" (a connection).
        moved_bytes: of the object, by RDMA.
        object_bytes: the object's whole length; None where there is none.
    """

    request_id: str = ""
    session: str = ""
    operation: str = ""
    bucket: str = ""
    key: str = ""
    version_id: str = ""
    bucket_owner: str = ""
    access_key: str = ""
    requester: str = ""
    auth_type: str = ""
    signature_version: str = ""
    status: int = 0
    error: str = ""
    limit: str = ""
    path: str = "http"
    moved_bytes: int = 0
    object_bytes: int | None = None

    def names(self, session_id: str) -> None:
        """It is about that session or connection: its log lines say so from now on."""
        self.session = session_id[:SHOWN_ID_DIGITS]


_current: ContextVar[Trail] = ContextVar("trail")


def begin(trail: Trail) -> Trail:
    """Make it the running request's, in this context and those that are copied from it."""
    _current.set(trail)
    return trail


def trail() -> Trail:
    """The running request's; outside of any a fresh one, that nobody reads."""
    return _current.get(None) or Trail()
