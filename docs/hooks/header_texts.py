"""What each x-amz-rdma-* header says: its messages, its form and its meaning."""

from __future__ import annotations

from gateway.wire import rdma_headers as rdma

HEADERS = {
    rdma.PROTOCOL: (
        "PREPARE, READY, CANCEL; replies",
        f"`{rdma.RC_PROTOCOL}`. Without it these paths answer 501.",
    ),
    rdma.PROTOCOL_STATUS: (
        "replies with 501",
        f"`{rdma.UNSUPPORTED}`: no RDMA for this request; plain HTTP does it.",
    ),
    rdma.TOKEN: (
        "PREPARE, connect, object requests",
        "Of PREPARE and connect: the client's queue pair, 88 hex digits. Of GetObject, PutObject "
        "and UploadPart: `rc:<connection>:<addr>:<size>:<rkey>`, the client's buffer.",
    ),
    rdma.PSN: (
        "PREPARE, connect; replies",
        "First send PSN of the sender's queue pair: 6 hex digits, not 0, drawn for each use.",
    ),
    rdma.COOKIE: (
        "PREPARE, READY, object requests; READY's reply",
        "The immediate that ends the data phase: 8 hex digits, not 0. On an object request with an "
        "`rc:` token it is optional: then a GET's last write carries it.",
    ),
    rdma.OP: ("PREPARE", "`GET` or `PUT`."),
    rdma.TARGET: (
        "PREPARE",
        "`/bucket/key[?query]`, percent-encoded. The query may be `versionId` of a GET; "
        "`partNumber` and `uploadId` of a PUT.",
    ),
    rdma.SIZE: ("PREPARE", f"Bytes to move, decimal, 1 to {rdma.MAX_SIZE_BYTES}."),
    rdma.OFFSET: ("PREPARE", "Where in the object a GET begins, decimal; 0 where it is absent."),
    rdma.QPN: (
        "READY; PREPARE's reply",
        "The sender's queue pair number, hex; it must equal the token's.",
    ),
    rdma.MR_ADDR: (
        "READY; PREPARE's reply",
        "Address of the sender's buffer, hex. READY of a GET needs it; in the reply it is the "
        "staging of a PUT, and 0 for a GET.",
    ),
    rdma.MR_RKEY: ("READY; PREPARE's reply", "The key to that buffer, hex."),
    rdma.REPLY: (
        "replies",
        "Of PREPARE and connect: `200:<token>`, the gateway's queue pair. Of object requests: the "
        "status where the bytes went by RDMA, or 501 where they did not.",
    ),
    rdma.SESSION: (
        "READY, CANCEL, disconnect; replies",
        "The session's or connection's id, 32 hex digits.",
    ),
    rdma.BYTES_TRANSFERRED: ("replies", "Bytes that went by RDMA, decimal."),
    rdma.ETAG: ("READY's reply", "The object's ETag."),
    rdma.VERSION_ID: ("READY's reply", "The object's version, where the bucket has versions."),
    rdma.CHECKSUM: ("READY's reply", "`CRC64NVME` and the object's checksum in base64."),
}
"""Name to (messages that carry it, meaning); a test holds it against ``gateway.wire``."""
