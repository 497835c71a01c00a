"""Where things are: the endpoint, and the percent-encoded address of a bucket or object.

Encoded once, here, and never again: what is signed is what stands on the wire (S3's "no
normalisation" rule, https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit


def parse_endpoint(url: str) -> str:
    """``scheme://host[:port]``, without a trailing slash.

    Raises:
        ValueError: another scheme, no host, or a path, query or user in it.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"endpoint {url!r} is not of the form http://HOST:PORT")
    if parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(f"endpoint {url!r} must be http://HOST:PORT and nothing more")
    return f"{parts.scheme}://{parts.netloc}"


def address(bucket: str = "", key: str = "", query: Mapping[str, str] | None = None) -> str:
    """``/bucket/key[?query]``, percent-encoded, path style.

    Args:
        bucket: "" for the service itself (ListBuckets).
        key: 1 to 1024 bytes of UTF-8, kept as it is: ``..``, ``//`` and a leading ``/`` too.
        query: decoded names and values, sent in this order.
    """
    path = f"/{quote(bucket, safe='')}"
    if key:
        path += f"/{quote(key, safe='/')}"
    pairs = [
        f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in (query or {}).items()
    ]
    return "?".join(filter(None, (path, "&".join(pairs))))
