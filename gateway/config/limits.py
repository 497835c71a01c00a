"""What one access key may use, so that no other goes short. 0 is no limit."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config.setting import setting


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """Of each access key, and of all anonymous requests together; more is answered 503 SlowDown.

    How many sessions and connections a key has is bounded in [rdma]. Read again at SIGHUP.
    """

    requests_per_s: float = setting(0.0, "requests of an access key per second", low=0)
    bytes_per_s: int = setting(0, "bytes of an access key per second, all paths, both ways", low=0)
    burst_s: float = setting(1.0, "of both rates that may be used at once", low=0.01)
    staging_bytes: int = setting(
        0, "RDMA staging of an access key's sessions; as much of its connections", low=0
    )
    max_keys: int = setting(10_000, "access keys whose rates are kept; the longest idle goes")
