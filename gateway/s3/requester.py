"""Who asks, and all that a bucket policy may want to know of the asking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from gateway.auth.condition_keys import STATED_HEADERS
from gateway.auth.post_policy import FormProof
from gateway.auth.principal import Principal
from gateway.auth.sigv4 import Verified
from gateway.wire.grants import GRANT_HEADERS
from gateway.wire.request import RequestHead


@dataclass(frozen=True, slots=True)
class Requester:
    """One request's asker. Proved is `principal` alone; the rest is what the head says.

    Attributes:
        remote_ip: the peer's address as text; "" where unknown.
        user_agent / referer: as sent; None where absent.
        now_s: when the request was looked at, POSIX seconds.
        auth_type: S3's word for how it is signed: REST-HEADER, REST-QUERY-STRING, POST, or "".
        signature_version: S3's word for what proved `principal`.
        stated: header name to value of those that policies may name (``x-amz-acl``).
        expected_owner: user id that the bucket must belong to, if it is to be touched at all.
    """

    principal: Principal
    remote_ip: str = ""
    secure: bool = False
    user_agent: str | None = None
    referer: str | None = None
    now_s: float = 0.0
    auth_type: str = ""
    signature_version: str = "AWS4-HMAC-SHA256"
    stated: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    expected_owner: str | None = None

    @property
    def now_ns(self) -> int:
        """`now_s` in POSIX nanoseconds, as storage counts."""
        return int(self.now_s * 1_000_000_000)

    @classmethod
    def of(cls, head: RequestHead, verified: Verified, now_s: float) -> Requester:
        """The asker of a request, by its head and its signature."""
        auth_type = "REST-QUERY-STRING" if verified.presigned else "REST-HEADER"
        return cls(
            principal=verified.principal,
            remote_ip=head.remote_ip,
            secure=head.secure,
            user_agent=head.get("user-agent"),
            referer=head.get("referer"),
            now_s=now_s,
            auth_type="" if verified.principal.anonymous else auth_type,
            stated=stated_headers(head),
            expected_owner=head.get("x-amz-expected-bucket-owner"),
        )

    @classmethod
    def of_form(cls, sender: Requester, head: RequestHead, proof: FormProof) -> Requester:
        """The asker of a POST form.

        Args:
            sender: of the request that carried it.
            head: the form's fields as a PUT's headers.
            proof: what the form's signature proves.
        """
        return replace(
            sender,
            principal=proof.principal,
            auth_type="" if proof.principal.anonymous else "POST",
            signature_version=proof.signature_version,
            stated=stated_headers(head),
        )


def stated_headers(head: RequestHead) -> Mapping[str, str]:
    """The headers that policies may name, as they will be obeyed.

    Of one that is repeated that is the first, but for grants, which all count.
    """
    stated: dict[str, str] = {}
    for name, value in head.headers:
        if name in STATED_HEADERS and name not in stated:
            stated[name] = value
        elif name in GRANT_HEADERS:
            stated[name] = f"{stated[name]},{value}"
    return stated
