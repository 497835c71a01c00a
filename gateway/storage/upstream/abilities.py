"""What the service upstream can do. What it can't is refused, with a reason."""

from __future__ import annotations

from dataclasses import dataclass, fields

DOCUMENTS = ("cors", "object-lock", "ownershipControls", "policy", "publicAccessBlock", "tagging")
"""The sub-resources of a bucket that pass through, by their names among the port's settings."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """Found out at start (`probe`). The defaults are what is assumed where it can't be.

    Attributes:
        conditional_writes: If-Match and If-None-Match on PutObject.
        conditional_completes: the same on CompleteMultipartUpload.
        conditional_deletes: If-Match on DeleteObject.
        upload_tagging: a multipart upload keeps the tags that it was begun with.
        checksums: `x-amz-checksum-*` are verified, kept and told.
        documents: of a bucket, by their names among the port's settings.
    """

    conditional_writes: bool = False
    conditional_completes: bool = False
    conditional_deletes: bool = False
    versioning: bool = True
    checksums: bool = False
    object_tagging: bool = True
    upload_tagging: bool = True
    acl: bool = True
    documents: frozenset[str] = frozenset({"cors", "object-lock", "policy", "tagging"})

    def describe(self) -> tuple[tuple[str, bool], ...]:
        """(name in words, whether it can), for the operator."""
        flags = [one.name for one in fields(self) if one.name != "documents"]
        return (
            *((name.replace("_", " "), bool(getattr(self, name))) for name in flags),
            *((f"{name} of buckets", name in self.documents) for name in DOCUMENTS),
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """The names in words of what it can't do."""
        return tuple(name for name, can in self.describe() if not can)
