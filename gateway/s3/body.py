"""What a verb may ask of a request's bytes, whichever way they came.

HTTP's body (``web.body``) and an RDMA transfer (``rdma``) keep this port, so that a verb can't tell
them apart: it stages, pours, checks nothing twice, and commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from gateway.auth.post_policy import SizeRange
from gateway.errors import ClientError, S3Code
from gateway.storage.port import Staged
from gateway.wire.checksums import Algorithm
from gateway.wire.form_data import FormFields
from gateway.wire.request import RequestHead


@dataclass(frozen=True, slots=True)
class Poured:
    """What went into the staged file, as computed on the way (never as claimed).

    Attributes:
        md5: 16 bytes.
        checksums: base64 by algorithm: every algorithm the client declared (already verified
            against its value) or that the caller asked for, and CRC64NVME where none was named.
    """

    size_bytes: int
    md5: bytes
    checksums: Mapping[Algorithm, str] = field(default_factory=dict)


class Body(Protocol):
    """The bytes of one request; poured or read once, in whole."""

    @property
    def length_bytes(self) -> int | None:
        """The decoded length where it is announced; None for Transfer-Encoding: chunked."""

    async def pour(self, staged: Staged, also: frozenset[Algorithm] = frozenset()) -> Poured:
        """Move everything into `staged`, verified: length, signatures, MD5, SHA-256, checksums.

        Raises ClientError (BadDigest, IncompleteBody, …) or TransportError; then nothing may be
        committed.
        """

    async def read(self, limit_bytes: int) -> bytes:
        """A small body (XML) in memory, verified the same way; MaxMessageLengthExceeded over it."""


@runtime_checkable
class Form(Body, Protocol):
    """The body of a POST form: read the fields, hold it to them, then pour the file."""

    async def read_fields(self) -> FormFields:
        """Everything before the file. Raises ClientError: MalformedPOSTRequest, …."""

    def hold_to(self, head: RequestHead, size: SizeRange) -> None:
        """Say what the fields said of the file.

        Args:
            head: their digests, as a PUT's headers.
            size: how long it may be; `pour` raises EntityTooLarge and EntityTooSmall.
        """


def refuse_longer(size_bytes: int | None, limit_bytes: int) -> None:
    """Hold a write's announced length to `max_object_bytes`, before anything is staged or moves.

    Raises:
        ClientError: EntityTooLarge.
    """
    if size_bytes is not None and size_bytes > limit_bytes:
        raise too_large(size_bytes, limit_bytes)


def too_large(proposed_bytes: int | None, limit_bytes: int) -> ClientError:
    """EntityTooLarge, with what S3 says beside it."""
    details = {} if proposed_bytes is None else {"ProposedSize": str(proposed_bytes)}
    details["MaxSizeAllowed"] = str(limit_bytes)
    return ClientError(S3Code.ENTITY_TOO_LARGE, details=details)
