"""AWS Signature Version 4: who sent a request, proved. Pure; the time is an argument.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html

In order: read the claim, check its scope and its time, find the key, insist that all x-amz-*
headers are signed, and compare signatures in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gateway.auth.canonical import canonical_request
from gateway.auth.chunks import EMPTY_SHA256, ChunkChain, SigningMaterial
from gateway.auth.claim import ALGORITHM, SIGNATURE_PARAMETER, Claim, parse_claim
from gateway.auth.credentials import CredentialStore, Scope, sign
from gateway.auth.payload import Payload, PayloadMode, parse_payload
from gateway.auth.principal import ANONYMOUS, Principal
from gateway.errors import ClientError, S3Code
from gateway.wire.request import RequestHead

SERVICE = "s3"
MAX_SKEW_S = 900
RDMA_PREFIX = "x-amz-rdma-"

_CONTENT_SHA256 = "x-amz-content-sha256"


@dataclass(frozen=True, slots=True)
class Verified:
    """A request whose signature, if it has one, is proved.

    Attributes:
        payload: how the body is vouched for; the body's reader has to hold it to that.
        signed_headers: lower-case names; empty for an anonymous request.
        presigned: whether a URL carried the signature.
        expires_s: when a presigned URL ends, POSIX seconds; None otherwise.
        material: what chunk signatures are checked with; None for an anonymous request.
    """

    principal: Principal
    payload: Payload
    signed_headers: frozenset[str] = frozenset()
    presigned: bool = False
    expires_s: int | None = None
    material: SigningMaterial | None = field(default=None, repr=False)

    def chunk_chain(self) -> ChunkChain | None:
        """A fresh chain for the body's chunk signatures; None where the mode has none.

        Raises:
            ClientError: AccessDenied: signed chunks in a request that is not signed.
        """
        if not self.payload.mode.signed_chunks:
            return None
        if self.material is None:
            raise ClientError(S3Code.ACCESS_DENIED, "Signed chunks need a signed request.")
        return ChunkChain(self.material)


def verify(
    head: RequestHead,
    credentials: CredentialStore,
    now_s: float,
    region: str,
    service: str = SERVICE,
) -> Verified:
    """Prove who sent a request; without a signature it is anonymous.

    Args:
        head: the request as it stood on the wire.
        credentials: who may sign.
        now_s: POSIX seconds.
        region: the only one that a credential scope may name.
        service: the scope's service, "s3" outside of tests.

    Raises:
        ClientError: AccessDenied, AuthorizationHeaderMalformed, AuthorizationQueryParametersError,
            InvalidAccessKeyId, InvalidArgument, InvalidRequest, InvalidURI, NotImplemented,
            RequestTimeTooSkewed, SignatureDoesNotMatch.
    """
    claim = parse_claim(head)
    if claim is None:
        text = head.get(_CONTENT_SHA256) or PayloadMode.UNSIGNED.value
        return Verified(ANONYMOUS, parse_payload(text))
    code = (
        S3Code.AUTHORIZATION_QUERY_PARAMETERS_ERROR
        if claim.presigned
        else S3Code.AUTHORIZATION_HEADER_MALFORMED
    )
    check_scope(claim.scope, region, service, code)
    _check_time(claim, now_s)
    key = credentials.signing_key(claim.access_key, claim.scope)
    if key is None:
        raise ClientError(
            S3Code.INVALID_ACCESS_KEY_ID, details={"AWSAccessKeyId": claim.access_key}
        )
    signed_headers = frozenset(claim.signed_headers)
    _check_all_signed(head, claim, signed_headers)
    payload = _payload(claim)
    _check_signature(head, claim, key)
    return Verified(
        principal=credentials.principal(claim.access_key),
        payload=payload,
        signed_headers=signed_headers,
        presigned=claim.presigned,
        expires_s=None if claim.expires_s is None else claim.time_s + claim.expires_s,
        material=SigningMaterial(key, claim.timestamp, claim.scope.text, claim.signature),
    )


def require_signed(head: RequestHead, verified: Verified, prefix: str = RDMA_PREFIX) -> None:
    """Insist on a signature that covers every header of that prefix (PROTOCOL section 2).

    Raises:
        ClientError: AccessDenied (403) for an anonymous request; InvalidArgument (400) that names
            the headers.
    """
    if verified.principal.anonymous:
        raise ClientError(S3Code.ACCESS_DENIED, "RDMA requests must be signed.")
    _refuse_unsigned_rdma(_unsigned(head, verified.signed_headers, prefix))


def string_to_sign(timestamp: str, scope: Scope, canonical: bytes) -> str:
    """The text that is signed: algorithm, time, scope and the canonical request's SHA-256."""
    return f"{ALGORITHM}\n{timestamp}\n{scope.text}\n{hashlib.sha256(canonical).hexdigest()}"


def check_scope(scope: Scope, region: str, service: str, code: S3Code) -> None:
    """Insist on this gateway's region and service. Raises a ClientError of that code."""
    if scope.region != region:
        raise ClientError(
            code,
            f"The authorization is malformed; the region {scope.region!r} is wrong; "
            f"expecting {region!r}",
            details={"Region": region},
        )
    if scope.service != service:
        raise ClientError(
            code,
            f"The authorization is malformed; incorrect service {scope.service!r}. "
            f"This endpoint belongs to {service!r}.",
        )


def _check_time(claim: Claim, now_s: float) -> None:
    age_s = now_s - claim.time_s
    if claim.expires_s is None:
        if abs(age_s) > MAX_SKEW_S:
            raise ClientError(
                S3Code.REQUEST_TIME_TOO_SKEWED,
                details={
                    "RequestTime": claim.timestamp,
                    "ServerTime": _iso(now_s),
                    "MaxAllowedSkewMilliseconds": str(MAX_SKEW_S * 1000),
                },
            )
    elif age_s < -MAX_SKEW_S:
        raise ClientError(
            S3Code.ACCESS_DENIED,
            "Request is not yet valid",
            details={"RequestTime": claim.timestamp, "ServerTime": _iso(now_s)},
        )
    elif age_s > claim.expires_s:
        raise ClientError(
            S3Code.ACCESS_DENIED,
            "Request has expired",
            details={
                "X-Amz-Expires": str(claim.expires_s),
                "Expires": _iso(claim.time_s + claim.expires_s),
                "ServerTime": _iso(now_s),
            },
        )


def _check_all_signed(head: RequestHead, claim: Claim, signed_headers: frozenset[str]) -> None:
    """S3's rule for x-amz-* headers, which every captured client keeps."""
    unsigned = _unsigned(head, signed_headers, "x-amz-")
    if claim.presigned and _CONTENT_SHA256 in unsigned:
        # Some clients send it unsigned; a presigned URL never speaks through this header.
        unsigned.remove(_CONTENT_SHA256)
    if not unsigned:
        return
    _refuse_unsigned_rdma([name for name in unsigned if name.startswith(RDMA_PREFIX)])
    raise ClientError(
        S3Code.ACCESS_DENIED,
        "There were headers present in the request which were not signed",
        details={"HeadersNotSigned": ", ".join(unsigned)},
    )


def _refuse_unsigned_rdma(unsigned: list[str]) -> None:
    if unsigned:
        raise ClientError(
            S3Code.INVALID_ARGUMENT,
            f"These headers must be listed in SignedHeaders: {', '.join(unsigned)}",
            details={"HeadersNotSigned": ", ".join(unsigned)},
        )


def _unsigned(head: RequestHead, signed_headers: frozenset[str], prefix: str) -> list[str]:
    return sorted(
        {name for name, _ in head.headers if name not in signed_headers and name.startswith(prefix)}
    )


def _payload_hash(claim: Claim) -> str:
    """The last line of the canonical request: what the client says, word for word."""
    if claim.content_sha256 is not None:
        return claim.content_sha256
    return PayloadMode.UNSIGNED.value if claim.presigned else EMPTY_SHA256


def _payload(claim: Claim) -> Payload:
    payload = parse_payload(_payload_hash(claim))
    if claim.presigned and payload.mode.chunked:
        raise ClientError(
            S3Code.NOT_IMPLEMENTED,
            "A presigned URL carries a plain body; X-Amz-Content-Sha256 can't be STREAMING-….",
        )
    return payload


def _check_signature(head: RequestHead, claim: Claim, key: bytes) -> None:
    canonical = canonical_request(
        head,
        claim.signed_headers,
        _payload_hash(claim),
        SIGNATURE_PARAMETER if claim.presigned else None,
    )
    text = string_to_sign(claim.timestamp, claim.scope, canonical)
    if not hmac.compare_digest(sign(key, text), claim.signature):
        # S3 also sends the canonical request; it may hold rkeys and session tokens, so we don't.
        raise ClientError(
            S3Code.SIGNATURE_DOES_NOT_MATCH,
            details={"AWSAccessKeyId": claim.access_key, "StringToSign": text},
        )


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
