"""How a request vouches for its body: the value of x-amz-content-sha256."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from gateway.errors import ClientError, S3Code

_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")


class PayloadMode(Enum):
    """The five ways, each with the header's text (SHA256 has the digest itself)."""

    SHA256 = ""
    UNSIGNED = "UNSIGNED-PAYLOAD"
    SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    SIGNED_CHUNKS_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
    UNSIGNED_CHUNKS_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

    @property
    def chunked(self) -> bool:
        """Whether the body is framed as aws-chunked."""
        return self.value.startswith("STREAMING-")

    @property
    def signed_chunks(self) -> bool:
        """Whether each chunk carries a signature."""
        return self in (PayloadMode.SIGNED_CHUNKS, PayloadMode.SIGNED_CHUNKS_TRAILER)


_MODES = {mode.value: mode for mode in PayloadMode if mode is not PayloadMode.SHA256}


@dataclass(frozen=True, slots=True)
class Payload:
    """The mode, and for SHA256 the lower-case hex digest that the body must have."""

    mode: PayloadMode
    sha256_hex: str | None = None


def parse_payload(text: str) -> Payload:
    """Read x-amz-content-sha256.

    Raises:
        ClientError: InvalidArgument; NotImplemented for the modes of SigV4A.
    """
    if text in _MODES:
        return Payload(_MODES[text])
    if _SHA256.fullmatch(text):
        return Payload(PayloadMode.SHA256, text.lower())
    if text.startswith("STREAMING-AWS4-ECDSA-"):
        raise ClientError(
            S3Code.NOT_IMPLEMENTED, "SigV4A is not supported; sign with AWS4-HMAC-SHA256."
        )
    raise ClientError(
        S3Code.INVALID_ARGUMENT,
        f"x-amz-content-sha256 must be {', '.join(_MODES)}, or a valid sha256 value.",
        details={"ArgumentName": "x-amz-content-sha256", "ArgumentValue": text},
    )
