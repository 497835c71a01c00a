"""access_log: lines that readers of AWS's format take apart as AWS's own."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.telemetry import RequestRecord, Trail
from gateway.telemetry.access_log import AccessLog, access_line, operation_name

# One group for each field, by the table of AWS's page "Amazon S3 server access log format".
FIELDS = (
    *("bucket_owner", "bucket", "time", "remote_ip", "requester", "request_id", "operation"),
    *("key", "request_uri", "status", "error", "bytes_sent", "object_size", "total_ms"),
    *("turnaround_ms", "referer", "user_agent", "version_id", "host_id", "signature_version"),
    *("cipher", "auth_type", "host", "tls_version", "access_point", "acl_required"),
    "source_region",
)
PATTERN = re.compile(
    r"(\S+) (\S+) \[([^\]]*)\] (\S+) (\S+) (\S+) (\S+) (\S+) \"([^\"]*)\" (\d{3}|-) (\S+) (\d+|-) "
    r"(\d+|-) (\d+) (\d+|-) \"([^\"]*)\" \"([^\"]*)\" (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) "
    r"(\S+) (\S+) (\S+)"
)
OWNER = "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be"

GET = RequestRecord(
    trail=Trail(
        request_id="3E57427F33A59F07",
        operation="GetObject",
        bucket="bucket",
        key="photos/2019 08/ü.jpg",
        bucket_owner=OWNER,
        access_key="AKALICE",
        requester=OWNER,
        auth_type="AuthHeader",
        signature_version="SigV4",
        object_bytes=2048,
        version_id="v1",
    ),
    method="GET",
    target="/bucket/photos/2019%2008/%C3%BC.jpg?versionId=v1",
    status=206,
    received_bytes=0,
    sent_bytes=1024,
    seconds=0.0704,
    peer="192.0.2.3",
    began_s=1549411238.5,
    first_byte_s=0.0101,
    host="bucket.s3.example",
    referer="",
    user_agent='agent "quoted" \x07 é',
    tls_version="TLSv1.3",
    cipher="TLS_AES_256_GCM_SHA384",
)


def parsed(record: RequestRecord) -> dict[str, str]:
    found = PATTERN.fullmatch(access_line(record, "HOSTID="))
    assert found is not None
    return dict(zip(FIELDS, found.groups(), strict=True))


def test_line__whole__has_every_field_of_awss_format() -> None:
    assert parsed(GET) == {
        "bucket_owner": OWNER,
        "bucket": "bucket",
        "time": "06/Feb/2019:00:00:38 +0000",
        "remote_ip": "192.0.2.3",
        "requester": OWNER,
        "request_id": "3E57427F33A59F07",
        "operation": "REST.GET.OBJECT",
        "key": "photos/2019%2008/%C3%BC.jpg",
        "request_uri": "GET /bucket/photos/2019%2008/%C3%BC.jpg?versionId=v1 HTTP/1.1",
        "status": "206",
        "error": "-",
        "bytes_sent": "1024",
        "object_size": "2048",
        "total_ms": "70",
        "turnaround_ms": "10",
        "referer": "-",
        "user_agent": "agent %22quoted%22 %07 %E9",
        "version_id": "v1",
        "host_id": "HOSTID=",
        "signature_version": "SigV4",
        "cipher": "TLS_AES_256_GCM_SHA384",
        "auth_type": "AuthHeader",
        "host": "bucket.s3.example",
        "tls_version": "TLSV1.3",
        "access_point": "-",
        "acl_required": "-",
        "source_region": "-",
    }


def test_line__nothing_known__is_dashes() -> None:
    bare = RequestRecord(Trail(), "GET", "/", 0, 0, 0, 0.0, "")
    fields = parsed(bare)
    assert {name for name, text in fields.items() if text == "-"} >= {
        *("bucket_owner", "bucket", "remote_ip", "requester", "key", "status", "bytes_sent"),
        *("object_size", "turnaround_ms", "version_id", "host", "cipher"),
    }


def test_line__presigned__shows_no_signature() -> None:
    target = "/b/k?X-Amz-Credential=AK%2Fscope&X-Amz-Signature=deadbeef"
    line = access_line(replace(GET, target=target), "H")
    assert "deadbeef" not in line
    assert "AK%2Fscope" not in line


def test_line__object_moved_by_rdma__counts_as_sent() -> None:
    ready = replace(GET, method="POST", target="/.hipobj-rc/ready", sent_bytes=0)
    ready.trail.moved_bytes = 2048
    fields = parsed(ready)
    assert (fields["operation"], fields["bytes_sent"]) == ("REST.GET.OBJECT", "2048")
    ready.trail.moved_bytes = 0


@pytest.mark.parametrize(
    ("operation", "method", "target", "named"),
    [
        ("ListBuckets", "GET", "/", "GET.SERVICE"),
        ("ListObjectsV2", "GET", "/b?list-type=2", "GET.BUCKET"),
        ("DeleteObjects", "POST", "/b?delete", "POST.MULTI_OBJECT_DELETE"),
        ("UploadPart", "PUT", "/b/k?partNumber=1&uploadId=u", "PUT.PART"),
        ("CopyObject", "PUT", "/b/k", "COPY.OBJECT"),
        ("GetBucketSubresource", "GET", "/b?cors", "GET.CORS"),
        ("PutBucketVersioning", "PUT", "/b?versioning=", "PUT.VERSIONING"),
        ("PutObjectLegalHold", "PUT", "/b/k?legal-hold", "PUT.LEGAL_HOLD"),
        ("", "PATCH", "/b", "PATCH.BUCKET"),
        ("", "GET", "/b?%22x%22", "GET.BUCKET"),
    ],
)
def test_operation_name__requests__are_named_as_by_aws(
    operation: str, method: str, target: str, named: str
) -> None:
    record = replace(GET, trail=Trail(operation=operation), method=method, target=target)
    assert operation_name(record) == named


def test_access_log__file_moved_away__goes_on_in_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    log = AccessLog(str(path), "H")
    log.record(GET)
    path.rename(tmp_path / "access.log.1")
    log.record(GET)
    log.close()
    for name in ("access.log", "access.log.1"):
        (line,) = (tmp_path / name).read_text().splitlines()
        assert PATTERN.fullmatch(line)


def test_access_log__syslog__gets_a_datagram(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.telemetry.access_log._SYSLOG_SOCKET", str(tmp_path / "log"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(str(tmp_path / "log"))
        log = AccessLog("syslog", "H")
        log.record(GET)
        log.close()
        assert b"REST.GET.OBJECT" in syslog.recv(65536)


def test_access_log__directory_is_missing__raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AccessLog(str(tmp_path / "no" / "access.log"), "H")
