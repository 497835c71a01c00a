"""S3's server access log: one line for each request, in AWS's own format.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html

What moved by RDMA counts as sent, and its request is named for what it moved. ``-`` stands for what
is unknown or does not apply.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from logging.handlers import SysLogHandler, WatchedFileHandler
from types import MappingProxyType
from urllib.parse import quote

from gateway.telemetry.logs import redact
from gateway.telemetry.record import RequestRecord

SYSLOG = "syslog"
_SYSLOG_SOCKET = "/dev/log"
_RESOURCE = re.compile("[A-Z][A-Z_]{1,31}")
_UNQUOTABLE = re.compile(r"[^\x20\x21\x23-\x7e]")

# "REST.<method>.<resource type>": those whose name is not the request's method and sub-resource.
_NAMES = MappingProxyType(
    {
        "ListBuckets": "GET.SERVICE",
        "CreateBucket": "PUT.BUCKET",
        "HeadBucket": "HEAD.BUCKET",
        "DeleteBucket": "DELETE.BUCKET",
        "ListObjects": "GET.BUCKET",
        "ListObjectsV2": "GET.BUCKET",
        "ListObjectVersions": "GET.BUCKETVERSIONS",
        "ListMultipartUploads": "GET.UPLOADS",
        "GetObject": "GET.OBJECT",
        "HeadObject": "HEAD.OBJECT",
        "PutObject": "PUT.OBJECT",
        "PostObject": "POST.OBJECT",
        "CopyObject": "COPY.OBJECT",
        "DeleteObject": "DELETE.OBJECT",
        "DeleteObjects": "POST.MULTI_OBJECT_DELETE",
        "CreateMultipartUpload": "POST.UPLOADS",
        "UploadPart": "PUT.PART",
        "UploadPartCopy": "COPY.PART",
        "CompleteMultipartUpload": "POST.UPLOAD",
        "AbortMultipartUpload": "DELETE.UPLOAD",
        "ListParts": "GET.UPLOAD",
        "GetBucketPolicy": "GET.BUCKETPOLICY",
        "PutBucketPolicy": "PUT.BUCKETPOLICY",
        "DeleteBucketPolicy": "DELETE.BUCKETPOLICY",
        "GetObjectTagging": "GET.OBJECT_TAGGING",
        "PutObjectTagging": "PUT.OBJECT_TAGGING",
        "DeleteObjectTagging": "DELETE.OBJECT_TAGGING",
        "PreflightRequest": "OPTIONS.PREFLIGHT",
        "RdmaPrepare": "POST.RDMA_PREPARE",
        "RdmaReady": "POST.RDMA_READY",
        "RdmaCancel": "POST.RDMA_CANCEL",
        "RdmaConnect": "POST.RDMA_CONNECTION",
        "RdmaDisconnect": "DELETE.RDMA_CONNECTION",
    }
)


class AccessLog:
    """Writes the lines where they are wanted.

    Args:
        to: "syslog", or the path of a file, which may be moved away while it is written.
        host_id: this process, as its replies' x-amz-id-2 has it.

    Raises:
        OSError: the file can't be written, or there is no syslog.
    """

    def __init__(self, to: str, host_id: str) -> None:
        self._host_id = host_id
        self._handler: logging.Handler = (
            SysLogHandler(_SYSLOG_SOCKET) if to == SYSLOG else WatchedFileHandler(to, "a", "utf-8")
        )

    def record(self, record: RequestRecord) -> None:
        """One line for a request that is over."""
        line = access_line(record, self._host_id)
        self._handler.handle(logging.LogRecord("access", logging.INFO, "", 0, line, None, None))

    def close(self) -> None:
        self._handler.close()


def access_line(record: RequestRecord, host_id: str) -> str:
    """The request as AWS would log it."""
    known = record.trail
    moment = datetime.fromtimestamp(record.began_s, UTC)
    sent_bytes = record.sent_bytes or (known.moved_bytes if known.operation == "GetObject" else 0)
    return " ".join(
        (
            known.bucket_owner or "-",
            quote(known.bucket) or "-",
            f"[{moment:%d/%b/%Y:%H:%M:%S} +0000]",
            record.peer or "-",
            known.requester or "-",
            known.request_id or "-",
            f"REST.{operation_name(record)}",
            quote(known.key) or "-",
            f'"{record.method} {redact(record.target)} {record.http_version}"',
            str(record.status or "-"),
            known.error or "-",
            str(sent_bytes or "-"),
            "-" if known.object_bytes is None else str(known.object_bytes),
            str(round(record.seconds * 1000)),
            str(round(record.first_byte_s * 1000)) if record.status else "-",
            _quoted(record.referer),
            _quoted(record.user_agent),
            quote(known.version_id) or "-",
            host_id,
            known.signature_version or "-",
            record.cipher or "-",
            known.auth_type or "-",
            _quoted(record.host).strip('"').replace(" ", "%20"),
            record.tls_version.replace("TLSv", "TLSV") or "-",
            "-",  # access point
            "-",  # whether an ACL was needed
            "-",  # the region a copy came from
        )
    )


def operation_name(record: RequestRecord) -> str:
    """``GET.OBJECT``; what a sub-resource is asked is named after it, as in ``PUT.CORS``."""
    named = _NAMES.get(record.trail.operation)
    if named is not None:
        return named
    query = record.target.partition("?")[2]
    of_what = query.partition("&")[0].partition("=")[0].replace("-", "_").upper()
    if _RESOURCE.fullmatch(of_what) is None:
        of_what = "OBJECT" if record.trail.key else "BUCKET"
    return f"{record.method}.{of_what}"


def _quoted(text: str) -> str:
    shown = _UNQUOTABLE.sub(lambda found: f"%{ord(found[0]) & 0xFF:02X}", text)
    return f'"{shown or "-"}"'
