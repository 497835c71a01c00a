"""What a bucket and an object may be called.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
"""

from __future__ import annotations

import re

from gateway.errors import ClientError, S3Code

MAX_KEY_BYTES = 1024

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_NOT_IN_DNS = re.compile(r"\.\.|-\.|\.-")  # a label begins and ends with a letter or digit
_IPV4 = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+")
_RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_SUFFIXES = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")


def check_bucket_name(name: str) -> None:
    """Refuse a name under which no bucket can exist.

    Raises:
        ClientError: InvalidBucketName.
    """
    if (
        not _BUCKET.fullmatch(name)
        or _NOT_IN_DNS.search(name)
        or _IPV4.fullmatch(name)
        or name.startswith(_RESERVED_PREFIXES)
        or name.endswith(_RESERVED_SUFFIXES)
    ):
        raise ClientError(
            S3Code.INVALID_BUCKET_NAME,
            "A bucket name has 3 to 63 characters: lower-case letters, digits, dots and hyphens, "
            "with a letter or digit at each end and on both sides of a dot; it is no IP address.",
            details={"BucketName": name},
        )


def check_key(key: str, max_bytes: int = MAX_KEY_BYTES) -> None:
    """Refuse a key over S3's length, counted in bytes of UTF-8.

    Raises:
        ClientError: KeyTooLongError with Size and MaxSizeAllowed.
    """
    size_bytes = len(key.encode())
    if size_bytes > max_bytes:
        raise ClientError(
            S3Code.KEY_TOO_LONG,
            details={"Size": str(size_bytes), "MaxSizeAllowed": str(max_bytes)},
        )
