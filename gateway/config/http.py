"""Where the gateway is reached over HTTP, and the bounds on what HTTP may bring."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.config.setting import GIB, KIB, MIB, TIB, setting


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds on what HTTP may bring. S3's own where S3 has one."""

    max_line_bytes: int = setting(16 * KIB, "request line and each header field")
    max_header_bytes: int = setting(64 * KIB, "all header fields of a request together")
    max_headers: int = setting(256, "header fields of a request")
    max_object_bytes: int = setting(5 * GIB, "one PUT or part", high=5 * TIB)
    max_xml_bytes: int = setting(2 * MIB, "an XML request body")
    max_form_bytes: int = setting(20 * KIB, "a POST form up to its file")
    max_metadata_bytes: int = setting(2 * KIB, "user metadata of an object", low=0)
    max_key_bytes: int = setting(1024, "an object's key", high=1024)
    max_connections: int = setting(1024, "open connections; more are answered 503")
    header_timeout_s: float = setting(30.0, "from a head's first byte to its last", low=0.1)
    idle_timeout_s: float = setting(75.0, "of a connection between requests", low=0.1)
    body_stall_timeout_s: float = setting(
        60.0, "without a byte of a body moving, either way", low=0.1
    )
    shutdown_grace_s: float = setting(30.0, "for running requests after SIGTERM", low=0)
    discard_timeout_s: float = setting(5.0, "spent on reading a refused body", low=0)
    digest_threads: int = setting(2, "threads that hash bodies", high=256)
    max_settling: int = setting(16, "batches of bodies being hashed and written at once")
    read_ahead_bytes: int = setting(512 * KIB, "of an object that is read while the last are sent")
    max_read_aheads: int = setting(32, "replies that read ahead at once; others go in small pieces")


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Where and as what the gateway is reached."""

    host: str = setting("127.0.0.1", "address to listen on")
    port: int = setting(9000, "port to listen on; 0 takes a free one", low=0, high=65535)
    region: str = setting("us-east-1", "region that signatures must name")
    domains: tuple[str, ...] = setting((), "domains of virtual-host addressing, comma-separated")
    limits: HttpLimits = field(default_factory=HttpLimits)
