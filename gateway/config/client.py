"""The client's limits: every bound of `gateway.client`, for programs and for the command line."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config import GIB, KIB, MIB


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """A transfer of a file holds at most `part_bytes` times `concurrency` of it in memory."""

    part_bytes: int = 64 * MIB  # one session, one part, one ranged request
    min_part_bytes: int = 5 * MIB  # S3's own, for every part but the last
    max_parts: int = 10_000  # S3's own
    concurrency: int = 4  # parts of one transfer under way at once
    max_reply_bytes: int = 8 * MIB  # an XML document
    http_chunk_bytes: int = 256 * KIB  # one write of an HTTP body
    connect_timeout_s: float = 10.0
    stall_timeout_s: float = 60.0  # between two reads of an HTTP body
    request_timeout_s: float = 60.0  # a request with a small reply
    transfer_timeout_s: float = 60.0  # PREPARE, READY and the data phase between, each session
    cancel_timeout_s: float = 2.0
    attempts: int = 8  # where the server says 503
    backoff_s: float = 0.1  # doubles with each attempt, jittered
    max_backoff_s: float = 5.0
    max_links: int = 4  # connections to one gateway
    link_bytes: int = 8 * MIB  # under way on each of them, so that another is worth making
    link_attempts: int = 2  # at the first, where the server has none to spare
    link_pause_s: float = 30.0  # until a server that had none to spare is asked again
    max_registrations: int = 256  # buffers that stay registered for a gateway between transfers
    max_registered_bytes: int = 16 * GIB  # of them together; it is memory that can't be swapped
    copy_bytes: int = 5 * GIB  # S3's own, for one request; longer objects are copied in parts
    copy_part_bytes: int = 1 * GIB  # at most 5 GiB
    many_concurrency: int = 16  # transfers of get_many and put_many under way at once
    accelerated_max_bytes: int = 1 * GIB  # a boto3 body, which is in memory whole
    accelerated_origins: int = 64  # hosts and access keys that one boto3 client has links for
