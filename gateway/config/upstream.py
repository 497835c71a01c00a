"""The S3 service behind the gateway: where it is, who asks it, and the bounds on asking."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.config.setting import MIB, setting


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """`storage.driver = "upstream"`. Needs the package's extra of that name (aiobotocore).

    An object under way holds at most `part_bytes` times `concurrency` of it, and one part more.
    """

    endpoint: str = setting("", "URL of the S3 service; empty for AWS")
    region: str = setting("us-east-1", "region that requests upstream are signed for")
    addressing: str = setting(
        "path", "where a bucket's name goes", choices=("path", "virtual", "auto")
    )
    credentials: str = setting(
        "service",
        "whose keys sign upstream: the gateway's own, its policies in front, or each user's",
        choices=("service", "user"),
    )
    access_key: str = setting("", "the gateway's own key upstream; empty for botocore's chain")
    secret_key: str = setting("", "its secret (file or environment only)", flag=False, shown=False)
    part_bytes: int = setting(
        8 * MIB, "piece of parallel GETs and of multipart PUTs", low=5 * MIB, high=512 * MIB
    )
    concurrency: int = setting(4, "pieces of one object under way at once", high=64)
    buffer_bytes: int = setting(512 * MIB, "of all objects under way together", low=32 * MIB)
    max_staged: int = setting(1024, "objects being written at once")
    max_connections: int = setting(128, "connections of one key to the service")
    max_users: int = setting(64, "keys with open connections, where each user's own sign")
    connect_timeout_s: float = setting(5.0, "until a connection stands", low=0.1)
    stall_timeout_s: float = setting(30.0, "without a byte from or to the service", low=0.1)
    call_timeout_s: float = setting(120.0, "one request, with all of its body", low=0.1)
    attempts: int = setting(4, "of a request that may be repeated")
    backoff_s: float = setting(0.1, "before the second attempt; doubles, with jitter", low=0)
    max_backoff_s: float = setting(5.0, "between two attempts", low=0)
    breaker_failures: int = setting(16, "failures in a row until requests are refused at once")
    breaker_open_s: float = setting(5.0, "of refusing, until one request tries again", low=0.1)
    bucket_ttl_s: float = setting(5.0, "that what a bucket is configured to be is kept", low=0)
    max_buckets: int = setting(4096, "buckets whose configuration is kept")
    probe_bucket: str = setting(
        "", "scratch bucket to learn at start what the service can; empty to make one and remove it"
    )
    cache_bytes: int = setting(0, "of objects kept on this host's disk; 0 for no cache", low=0)
    cache_dir: Path = setting(Path("cache"), "directory of that cache")  # noqa: RUF009
