"""The chain of signatures over the chunks of a signed aws-chunked body.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from gateway.auth.credentials import sign
from gateway.errors import ClientError, S3Code

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class SigningMaterial:
    """What chunk signatures are made from; none of it but the scope may be shown.

    Attributes:
        key: the signing key, 32 bytes.
        timestamp / scope: as in the request's string to sign.
        signature: the request's own: the seed of the chain.
    """

    key: bytes = field(repr=False)
    timestamp: str
    scope: str
    signature: str = field(repr=False)


class ChunkChain:
    """Checks one body's chunks in order: each signature covers the one before it."""

    def __init__(self, material: SigningMaterial) -> None:
        self._material = material
        self._previous = material.signature

    def verify_chunk(self, sha256_hex: str, signature: str) -> None:
        """Check the next chunk, the last and empty one too.

        Raises:
            ClientError: SignatureDoesNotMatch.
        """
        self._verify("AWS4-HMAC-SHA256-PAYLOAD", f"{EMPTY_SHA256}\n{sha256_hex}", signature)

    def verify_trailer(self, sha256_hex: str, signature: str) -> None:
        """Check the trailers behind the last chunk.

        Raises:
            ClientError: SignatureDoesNotMatch.
        """
        self._verify("AWS4-HMAC-SHA256-TRAILER", sha256_hex, signature)

    def _verify(self, algorithm: str, hashes: str, signature: str) -> None:
        material = self._material
        text = f"{algorithm}\n{material.timestamp}\n{material.scope}\n{self._previous}\n{hashes}"
        expected = sign(material.key, text)
        if not hmac.compare_digest(expected.encode(), signature.encode()):
            raise ClientError(
                S3Code.SIGNATURE_DOES_NOT_MATCH,
                "A chunk or trailer signature does not match the body that came with it.",
            )
        self._previous = expected
