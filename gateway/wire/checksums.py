"""S3's checksum algorithms: names, header names and lengths. The computing is `s3.digest`'s."""

from __future__ import annotations

from enum import Enum


class Algorithm(Enum):
    """(name as in x-amz-sdk-checksum-algorithm, digest length in bytes)."""

    CRC32 = ("CRC32", 4)
    CRC32C = ("CRC32C", 4)
    CRC64NVME = ("CRC64NVME", 8)
    SHA1 = ("SHA1", 20)
    SHA256 = ("SHA256", 32)

    def __init__(self, label: str, length_bytes: int) -> None:
        self.label = label
        self.length_bytes = length_bytes

    @property
    def header(self) -> str:
        """The header and trailer name, lower case: ``x-amz-checksum-crc32``."""
        return f"x-amz-checksum-{self.label.lower()}"

    @property
    def element(self) -> str:
        """The XML element: ``ChecksumCRC32``."""
        return f"Checksum{self.label}"


class ChecksumType(Enum):
    """Of a multipart object: over the whole object, or over the parts' checksums."""

    FULL_OBJECT = "FULL_OBJECT"
    COMPOSITE = "COMPOSITE"
