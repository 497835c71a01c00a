"""Bug reports of other S3 servers, as tests: ranges, conditions, multipart, copy, delete, HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree

import pytest
from botocore.exceptions import ClientError
from raw_http import RawClient, RawReply, assert_error

MIB = 1024**2
DATA = bytes(range(256))
ETAG = hashlib.md5(DATA).hexdigest()
OTHER = hashlib.md5(b"other").hexdigest()
PAST = "Wed, 21 Oct 2015 07:28:00 GMT"
FUTURE = "Wed, 21 Oct 2099 07:28:00 GMT"


@pytest.fixture
def target(raw: RawClient, bucket: str) -> str:
    """An object with `DATA`."""
    assert raw.ask("PUT", f"/{bucket}/k", DATA).status == 200
    return f"/{bucket}/k"


# Ranges


@pytest.mark.parametrize(
    "text",
    [
        "bytes=invalid-range",
        "bytes=33-10",
        "bytes=",
        "bytes=-",
        "bytes=a-5",
        "bytes=0x1-5",
        "bytes=0-1,5-6",
        "items=0-5",
        "invalid",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_range__malformed__is_200_with_the_whole_body(
    raw: RawClient, target: str, method: str, text: str
) -> None:
    """versitygw#1120."""
    reply = raw.ask(method, target, headers={"Range": text})
    assert (reply.status, reply.headers["content-length"]) == (200, str(len(DATA)))
    assert "content-range" not in reply.headers
    assert reply.body == (DATA if method == "GET" else b"")


@pytest.mark.parametrize("text", ["bytes=256-", "bytes=300-400", "bytes=-0"])
def test_range__not_satisfiable__is_416_with_the_range_and_the_size(
    raw: RawClient, target: str, text: str
) -> None:
    """versitygw#2069."""
    reply = raw.ask("GET", target, headers={"Range": text})
    assert_error(reply, 416, "InvalidRange")
    assert reply.text("RangeRequested") == text
    assert reply.text("ActualObjectSize") == str(len(DATA))
    assert reply.headers["content-range"] == f"bytes */{len(DATA)}"


@pytest.mark.parametrize("text", ["bytes=1-5", "bytes=999-"])
@pytest.mark.parametrize(
    ("condition", "value", "status"),
    [
        ("If-Match", OTHER, 412),
        ("If-Unmodified-Since", PAST, 412),
        ("If-None-Match", ETAG, 304),
        ("If-Modified-Since", FUTURE, 304),
    ],
)
def test_range__precondition_fails__decides_before_the_range(
    raw: RawClient, target: str, text: str, condition: str, value: str, status: int
) -> None:
    """s3-orchestrator#1181."""
    reply = raw.ask("GET", target, headers={"Range": text, condition: value})
    assert reply.status == status
    assert DATA[1:6] not in reply.body


@pytest.mark.parametrize(
    ("validator", "status"),
    [
        (f'"{ETAG}"', 206),
        (ETAG, 206),
        (f'"{OTHER}"', 200),
        (f'W/"{ETAG}"', 200),
        (PAST, 200),
        (FUTURE, 200),
    ],
)
def test_if_range__validator__picks_the_range_or_everything(
    raw: RawClient, target: str, validator: str, status: int
) -> None:
    """s3-orchestrator#1181."""
    reply = raw.ask("GET", target, headers={"Range": "bytes=1-5", "If-Range": validator})
    assert (reply.status, reply.body) == (status, DATA[1:6] if status == 206 else DATA)


def test_if_range__very_last_modified__picks_the_range(raw: RawClient, target: str) -> None:
    """s3-orchestrator#1181."""
    modified = raw.ask("HEAD", target).headers["last-modified"]
    reply = raw.ask("GET", target, headers={"Range": "bytes=1-5", "If-Range": modified})
    assert (reply.status, reply.body) == (206, DATA[1:6])


# Conditions


@pytest.mark.parametrize("spelled", ["{}", '"{}"'])
def test_etag__quoted_or_not__is_the_same_to_every_condition(
    raw: RawClient, target: str, spelled: str
) -> None:
    """S3Mock#807."""
    same, other = spelled.format(ETAG), spelled.format(OTHER)
    source = {"x-amz-copy-source": target}
    for method, body, headers, status in (
        ("GET", b"", {"If-Match": same}, 200),
        ("GET", b"", {"If-Match": other}, 412),
        ("GET", b"", {"If-None-Match": same}, 304),
        ("HEAD", b"", {"If-None-Match": other}, 200),
        ("PUT", b"new", {"If-Match": other}, 412),
        ("PUT", DATA, {"If-Match": same}, 200),
        ("PUT", b"", source | {"x-amz-copy-source-if-match": other}, 412),
        ("PUT", b"", source | {"x-amz-copy-source-if-none-match": same}, 412),
        ("DELETE", b"", {"If-Match": other}, 412),
        ("DELETE", b"", {"If-Match": same}, 204),
    ):
        assert raw.ask(method, target, body, headers).status == status, (method, headers)


def test_put__if_none_match_star_on_an_object__is_412_and_leaves_it(
    raw: RawClient, target: str
) -> None:
    """versitygw#1708; all at once: test_http_races (seaweedfs#8800, versitygw#2288)."""
    reply = raw.ask("PUT", target, b"new", {"If-None-Match": "*"})
    assert_error(reply, 412, "PreconditionFailed")
    assert reply.text("Condition") == "If-None-Match"
    assert raw.ask("GET", target).body == DATA


@pytest.mark.parametrize(("etag", "status"), [(ETAG, 412), (OTHER, 200)])
def test_put__if_none_match_of_an_etag__is_kept_as_rfc_9110_has_it(
    raw: RawClient, target: str, etag: str, status: int
) -> None:
    """versitygw#1708. S3 answers 501; a condition that is understood is better kept."""
    assert raw.ask("PUT", target, b"new", {"If-None-Match": f'"{etag}"'}).status == status
    assert raw.ask("GET", target).body == (b"new" if status == 200 else DATA)


@pytest.mark.parametrize("value", ["*", f'"{ETAG}"'])
def test_put__if_match_on_a_missing_key__is_404_and_stores_nothing(
    raw: RawClient, bucket: str, value: str
) -> None:
    """ministack#680."""
    assert_error(raw.ask("PUT", f"/{bucket}/k", DATA, {"If-Match": value}), 404, "NoSuchKey")
    assert raw.ask("HEAD", f"/{bucket}/k").status == 404


# Multipart


class Upload:
    """One upload to the key "big"; parts are what was uploaded, by number."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self.address = {"Bucket": bucket, "Key": "big"}
        self.address["UploadId"] = s3.create_multipart_upload(**self.address)["UploadId"]
        self._etags: dict[int, str] = {}

    def put(self, number: int, data: bytes) -> None:
        part = self._s3.upload_part(PartNumber=number, Body=data, **self.address)
        self._etags[number] = part["ETag"]

    def complete(self, numbers: Iterable[int]) -> str:
        """S3's error code, or "" for success. A part that was never put has another's ETag."""
        parts = [
            {"PartNumber": number, "ETag": self._etags.get(number, f'"{OTHER}"')}
            for number in numbers
        ]
        return error_of(
            self._s3.complete_multipart_upload, MultipartUpload={"Parts": parts}, **self.address
        )

    def abort(self) -> str:
        return error_of(self._s3.abort_multipart_upload, **self.address)


def error_of(call: Any, **arguments: Any) -> str:
    try:
        call(**arguments)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


@pytest.mark.parametrize(
    ("listed", "code"),
    [
        ([2, 1], "InvalidPartOrder"),
        ([1, 1], "InvalidPartOrder"),
        ([1, 3], "InvalidPart"),
        ([3], "InvalidPart"),
    ],
)
def test_complete__not_ascending_or_missing__has_its_own_code_and_the_upload_lives_on(
    s3: Any, bucket: str, listed: list[int], code: str
) -> None:
    """versitygw#1063, scality#309."""
    upload = Upload(s3, bucket)
    upload.put(1, bytes(5 * MIB))
    upload.put(2, b"end")
    assert upload.complete(listed) == code
    assert upload.complete([1, 2]) == ""
    assert s3.head_object(Bucket=bucket, Key="big")["ContentLength"] == 5 * MIB + 3


def test_parts__numbers_1_to_10000__are_taken_and_no_others(s3: Any, bucket: str) -> None:
    """seaweedfs#6821; all of them: test_complete_upload__10000_parts__one_object_…."""
    upload = Upload(s3, bucket)
    upload.put(1, bytes(5 * MIB))
    upload.put(10_000, b"end")
    for number in (0, 10_001):
        outside = {"PartNumber": number, "Body": b"x", **upload.address}
        assert error_of(s3.upload_part, **outside) == "InvalidArgument"
    assert upload.complete([1, 10_000]) == ""
    got = s3.get_object(Bucket=bucket, Key="big")["Body"].read()
    assert got == bytes(5 * MIB) + b"end"


def test_abort__after_complete__never_harms_the_object(s3: Any, bucket: str) -> None:
    """seaweedfs#11385."""
    upload = Upload(s3, bucket)
    upload.put(1, DATA)
    assert upload.complete([1]) == ""
    assert upload.abort() == "NoSuchUpload"
    second = Upload(s3, bucket)
    second.put(1, b"never")
    assert second.abort() == ""
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == DATA
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


# Copy


@pytest.mark.parametrize(
    ("key", "source"),
    [
        ("{e14c-b09a}/file", "{e14c-b09a}/file"),
        ("{e14c-b09a}/file", "%7Be14c-b09a%7D/file"),
        ("a b+c", "a%20b%2Bc"),
        ("a/b", "a%2Fb"),
        ("a%2Fb", "a%252Fb"),
        ("/lead", "/lead"),
        ("a//../b/", "a//../b/"),
        ("q?versionId=1", "q%3FversionId=1"),
    ],
)
@pytest.mark.parametrize("start", ["", "/"])
def test_copy_source__any_key__is_split_before_it_is_decoded(
    raw: RawClient, s3: Any, bucket: str, start: str, key: str, source: str
) -> None:
    """versitygw#1832."""
    s3.put_object(Bucket=bucket, Key=key, Body=DATA)
    header = {"x-amz-copy-source": f"{start}{bucket}/{source}"}
    assert raw.ask("PUT", f"/{bucket}/copy", headers=header).status == 200
    assert raw.ask("GET", f"/{bucket}/copy").body == DATA


def test_copy_source__version_id__names_that_version(raw: RawClient, s3: Any, bucket: str) -> None:
    """versitygw#1832."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="q?", Body=DATA)["VersionId"]
    s3.put_object(Bucket=bucket, Key="q?", Body=b"newer")
    source = {"x-amz-copy-source": f"{bucket}/q%3F?versionId={first}"}
    reply = raw.ask("PUT", f"/{bucket}/copy", headers=source)
    assert reply.status == 200
    assert reply.headers["x-amz-copy-source-version-id"] == first
    assert raw.ask("GET", f"/{bucket}/copy").body == DATA
    latest = {"x-amz-copy-source": f"{bucket}/q%3F"}
    assert raw.ask("PUT", f"/{bucket}/copy", headers=latest).status == 200
    assert raw.ask("GET", f"/{bucket}/copy").body == b"newer"


# Delete


def delete(raw: RawClient, bucket: str, keys: Iterable[str], quiet: str = "") -> RawReply:
    listed = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    body = f"<Delete>{quiet}{listed}</Delete>".encode()
    return raw.ask("POST", f"/{bucket}?delete", body)


@pytest.mark.parametrize("count", [0, 1001])
def test_delete_objects__no_key_or_over_a_thousand__is_malformed_xml_and_deletes_nothing(
    raw: RawClient, bucket: str, target: str, count: int
) -> None:
    """versitygw#2109."""
    reply = delete(raw, bucket, ["k"] * count)
    assert_error(reply, 400, "MalformedXML")
    assert raw.ask("GET", target).body == DATA


@pytest.mark.parametrize(
    ("quiet", "told"),
    [("<Quiet>true</Quiet>", 0), ("<Quiet>false</Quiet>", 1000), ("", 1000)],
)
def test_delete_objects__a_thousand__are_deleted_and_quiet_is_heeded(
    raw: RawClient, bucket: str, target: str, quiet: str, told: int
) -> None:
    """versitygw#2109."""
    reply = delete(raw, bucket, ["k", *(f"none-{number}" for number in range(999))], quiet)
    assert reply.status == 200
    assert len(ElementTree.fromstring(reply.body).findall("{*}Deleted")) == told
    assert raw.ask("HEAD", target).status == 404


def test_delete_objects__quiet__still_tells_what_failed(raw: RawClient, bucket: str) -> None:
    """versitygw#2109."""
    reply = delete(raw, bucket, ["k", "k" * 1025], "<Quiet>true</Quiet>")
    (error,) = ElementTree.fromstring(reply.body)
    assert error.findtext("{*}Code") == "KeyTooLongError"


# HTTP


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/none", {}, 404),
        ("PATCH", "/k", {}, 405),
        ("GET", "/k", {"Range": "bytes=999-"}, 416),
        ("GET", "/k", {"If-Match": OTHER}, 412),
        ("PUT", "/k", {"Content-MD5": "no"}, 400),
        ("PUT", "/k", {"x-amz-content-sha256": "no"}, 400),
    ],
)
def test_error__any__is_application_xml_without_a_charset(
    raw: RawClient,
    bucket: str,
    target: str,
    method: str,
    path: str,
    headers: Mapping[str, str],
    status: int,
) -> None:
    """aws-sdk-net#3009. For 100 Continue with its reason phrase (botocore#3455): test_http_wire."""
    reply = raw.ask(method, f"/{bucket}{path}", headers=headers)
    assert reply.status == status
    assert reply.headers["content-type"] == "application/xml"


def test_error__before_there_is_a_request__is_application_xml_without_a_charset(
    raw: RawClient,
) -> None:
    """aws-sdk-net#3009: the HTTP library's own errors as well."""
    raw.send(b"GET / HTTP/1.1\r\nHost: a\r\nno header\r\n\r\n")
    reply = raw.reply()
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/xml"
    assert reply.code is not None


# Limits


def metadata(size_bytes: int) -> dict[str, str]:
    """Two headers whose names (behind the prefix) and values have that size together."""
    return {"x-amz-meta-a": "v" * 1000, "x-amz-meta-b": "v" * (size_bytes - 1002)}


def test_metadata__over_2_kib__is_metadata_too_large(raw: RawClient, bucket: str) -> None:
    """versitygw#1909."""
    assert raw.ask("PUT", f"/{bucket}/k", DATA, metadata(2048)).status == 200
    for method, path in (("PUT", "none"), ("POST", "none?uploads")):
        reply = raw.ask(method, f"/{bucket}/{path}", headers=metadata(2049))
        assert_error(reply, 400, "MetadataTooLarge")
        assert reply.text("Size") == "2049"
        assert reply.text("MaxSizeAllowed") == "2048"
    assert raw.ask("HEAD", f"/{bucket}/none").status == 404


@pytest.mark.parametrize(
    ("longest", "one_more"),
    [
        pytest.param("k" * 1024, "k" * 1025, id="ascii"),
        pytest.param("%E2%82%AC" * 341 + "k", "%E2%82%AC" * 342, id="utf-8"),
        pytest.param("a/" * 512, "a/" * 512 + "a", id="segments"),
    ],
)
def test_key__over_1024_bytes__is_key_too_long(
    raw: RawClient, bucket: str, longest: str, one_more: str
) -> None:
    """versitygw#1909: bytes of UTF-8, not characters."""
    assert raw.ask("PUT", f"/{bucket}/{longest}", DATA).status == 200
    assert raw.ask("GET", f"/{bucket}/{longest}").body == DATA
    for method, suffix in (("PUT", ""), ("GET", ""), ("DELETE", ""), ("POST", "?uploads")):
        reply = raw.ask(method, f"/{bucket}/{one_more}{suffix}")
        assert_error(reply, 400, "KeyTooLongError")
