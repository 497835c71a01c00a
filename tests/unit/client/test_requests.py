"""The small requests: many deletions, versions, copies in parts, the server's clock."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime

import pytest
from aiohttp import web
from fake_rc_gateway import Rig, Seen, crc64, error, md5, xml

from gateway.client import ConnectError, Deletion, S3Error


def answering(rig: Rig, start: str, *responses: web.Response) -> None:
    """The requests that begin so are answered with these, in turn."""
    left = iter(responses)
    rig.server.hooks.append(
        lambda seen: next(left) if f"{seen.method} {seen.raw_path}".startswith(start) else None
    )


async def test_delete_objects__of_any_number__go_a_thousand_at_once(rig: Rig) -> None:
    answering(rig, "POST /b?delete=", *(xml("DeleteResult", "") for _ in range(3)))
    async with rig.client() as client:
        deletions = [Deletion(f"k{number}", "v<1>") for number in range(2001)]
        assert await client.delete_objects("b", deletions) == ()
    bodies = [seen.body for seen in rig.server.calls("POST /b?delete=")]
    assert [body.count(b"<Object>") for body in bodies] == [1000, 1000, 1]
    assert b"<Key>k2000</Key><VersionId>v&lt;1&gt;</VersionId>" in bodies[2]
    digest = base64.b64encode(hashlib.md5(bodies[0]).digest()).decode()
    assert rig.server.calls("POST /b?delete=")[0].headers["content-md5"] == digest


async def test_delete_objects__some_fail__are_named(rig: Rig) -> None:
    failed = "<Error><Key>a</Key><VersionId>1</VersionId><Code>AccessDenied</Code></Error>"
    answering(rig, "POST /b?delete=", xml("DeleteResult", failed))
    async with rig.client() as client:
        (failure,) = await client.delete_objects("b", [Deletion("a", "1"), Deletion("b")])
    assert (failure.deletion, failure.code) == (Deletion("a", "1"), "AccessDenied")


async def test_delete_objects__key_that_xml_cannot_hold__goes_alone(rig: Rig) -> None:
    answering(rig, "DELETE /b/%01", web.Response(status=204), error(403, "AccessDenied", "no"))
    async with rig.client() as client:
        assert await client.delete_objects("b", [Deletion("\x01")]) == ()
        (failure,) = await client.delete_objects("b", [Deletion("\x01", "v")])
    assert (failure.deletion, failure.message) == (Deletion("\x01", "v"), "no")
    assert rig.server.calls("DELETE /b/%01?versionId=v")


async def test_list_versions__of_two_pages__are_read_with_their_marker(rig: Rig) -> None:
    version = (
        "<Version><Key>a%2Bb</Key><VersionId>1</VersionId><IsLatest>true</IsLatest>"
        "<LastModified>2026-01-01</LastModified><Size>7</Size><ETag>&quot;e&quot;</ETag></Version>"
    )
    marker = "<DeleteMarker><Key>c</Key><VersionId>2</VersionId></DeleteMarker>"
    more = (
        "<IsTruncated>true</IsTruncated><NextKeyMarker>a%2Bb</NextKeyMarker>"
        "<NextVersionIdMarker>1</NextVersionIdMarker>"
    )
    answering(
        rig,
        "GET /b?versions=",
        xml("ListVersionsResult", more + version),
        xml("ListVersionsResult", marker),
    )
    async with rig.client() as client:
        first = await client.list_versions("b", "a", delimiter="/")
        second = await client.list_versions("b", marker=first.next_marker)
    (one,), (other,) = first.versions, second.versions
    assert (one.key, one.version_id, one.latest, one.size_bytes) == ("a+b", "1", True, 7)
    assert (other.key, other.delete_marker, second.next_marker) == ("c", True, None)
    assert "key-marker=a%2Bb&version-id-marker=1" in rig.server.seen[1].raw_path


async def test_copy_object__short__is_one_request_of_what_was_seen(rig: Rig) -> None:
    rig.server.objects["/b/k é"] = rig.server.objects["/b/k%20%C3%A9"] = b"data"
    answering(rig, "PUT /c/t", xml("CopyObjectResult", "<ETag>&quot;e&quot;</ETag>"))
    async with rig.client() as client:
        assert await client.copy_object(("b", "k é"), ("c", "t"), version_id=None) == "e"
    (copy,) = rig.server.calls("PUT /c/t")
    assert copy.headers["x-amz-copy-source"] == "/b/k%20%C3%A9"
    assert copy.headers["x-amz-copy-source-if-match"] == f'"{md5(b"data")}"'


TAG = "<TagSet><Tag><Key>a b</Key><Value>&amp;=ü</Value></Tag></TagSet>"


class Copier:
    """A server that copies parts of its objects."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.copied: list[bytes] = []
        self.completed = b""

    def __call__(self, seen: Seen) -> web.Response | None:
        if "x-amz-copy-source-range" in seen.headers:
            first, last = re.findall(r"\d+", seen.headers["x-amz-copy-source-range"])
            part = self.rig.server.objects["/b/k"][int(first) : int(last) + 1]
            self.copied.append(part)
            return xml("CopyPartResult", f"<ETag>&quot;{md5(part)}&quot;</ETag>")
        if seen.method == "POST" and "uploadId" in seen.raw_path:
            self.completed = seen.body
            return xml("CompleteMultipartUploadResult", "<ETag>&quot;whole&quot;</ETag>")
        return None


async def test_copy_object__longer_than_one_request_takes__is_copied_in_parts(rig: Rig) -> None:
    rig.server.objects["/b/k"] = data = bytes(range(256)) * 10
    copier = Copier(rig)
    rig.server.hooks.append(copier)
    answering(rig, "GET /b/k?tagging=", xml("Tagging", TAG))
    limits = rig.tight(copy_bytes=1000, copy_part_bytes=1000, concurrency=1)
    async with rig.client(limits=limits) as client:
        assert await client.copy_object(("b", "k"), ("c", "t")) == "whole"
    assert [len(part) for part in copier.copied] == [1000, 1000, 560]
    assert b"".join(copier.copied) == data
    etags = re.findall(rb"<ETag>&quot;(\w+)&quot;</ETag>|<ETag>\"(\w+)\"</ETag>", copier.completed)
    assert [(a or b).decode() for a, b in etags] == [md5(part) for part in copier.copied]
    (create,) = rig.server.calls("POST /c/t?uploads=")
    assert create.headers["x-amz-meta-color"] == "blue"
    (complete,) = rig.server.calls("POST /c/t?uploadId=")
    assert complete.headers["x-amz-checksum-crc64nvme"] == crc64(data)


@pytest.mark.parametrize(
    ("answer", "tagged"),
    [
        (xml("Tagging", TAG), "a+b=%26%3D%C3%BC"),
        (xml("Tagging", "<TagSet/>"), None),
        (error(501, "NotImplemented", "no tags here"), None),
    ],
    ids=["tags", "none", "unknown-to-the-server"],
)
async def test_copy_object__in_parts__tags_of_that_version_go_along(
    rig: Rig, answer: web.Response, tagged: str | None
) -> None:
    rig.server.objects["/b/k?versionId=1"] = rig.server.objects["/b/k"] = bytes(3000)
    rig.server.hooks.append(Copier(rig))
    answering(rig, "GET /b/k?tagging=&versionId=1", answer)
    limits = rig.tight(copy_bytes=1000, copy_part_bytes=2000)
    async with rig.client(limits=limits) as client:
        await client.copy_object(("b", "k"), ("c", "t"), version_id="1")
    (create,) = rig.server.calls("POST /c/t?uploads=")
    assert create.headers.get("x-amz-tagging") == tagged


async def test_copy_object__tags_may_not_be_read__nothing_is_begun(rig: Rig) -> None:
    rig.server.objects["/b/k"] = bytes(3000)
    answering(rig, "GET /b/k?tagging=", error(403, "AccessDenied", "not yours"))
    async with rig.client(limits=rig.tight(copy_bytes=1000)) as client:
        with pytest.raises(S3Error, match="AccessDenied"):
            await client.copy_object(("b", "k"), ("c", "t"))
    assert not rig.server.calls("POST /c/t")


async def test_copy_object__a_part_fails__the_upload_is_aborted(rig: Rig) -> None:
    rig.server.objects["/b/k"] = bytes(3000)
    answering(rig, "GET /b/k?tagging=", xml("Tagging", TAG))
    answering(rig, "PUT /c/t?partNumber", error(412, "PreconditionFailed", "replaced"))
    limits = rig.tight(copy_bytes=1000, copy_part_bytes=2000, concurrency=1)
    async with rig.client(limits=limits) as client:
        with pytest.raises(S3Error, match="PreconditionFailed"):
            await client.copy_object(("b", "k"), ("c", "t"))
    assert rig.server.calls("DELETE /c/t?uploadId=")


async def test_server_time__of_an_answer__is_its_date(rig: Rig) -> None:
    empty = xml("ListAllMyBucketsResult", "")
    empty.headers["Date"] = "Mon, 02 Mar 2026 12:00:00 GMT"
    undated = xml("ListAllMyBucketsResult", "")
    undated.headers["Date"] = "yesterday"
    answering(rig, "GET /", empty, undated)
    async with rig.client() as client:
        assert await client.server_time() == datetime(2026, 3, 2, 12, tzinfo=UTC)
        with pytest.raises(ConnectError, match="no Date"):
            await client.server_time()


async def test_delete_bucket__and_version__are_asked_for(rig: Rig) -> None:
    async with rig.client() as client:
        await client.delete_bucket("b")
        await client.delete_object("b", "k", "v 1")
    assert [seen.raw_path for seen in rig.server.seen] == ["/b", "/b/k?versionId=v%201"]


async def test_protocol__asked_for__is_the_one_that_is_used(rig: Rig) -> None:
    async with rig.client(protocol="hipobj-rc-v2", rdma="require") as client:
        done = await client.put_from("b", "k", b"x")
    assert done.protocol is not None
    assert done.protocol.value == "hipobj-rc-v2"
    assert rig.server.calls("POST /.hipobj-rc/prepare")


async def test_protocol__connections_only_and_none_are_made__goes_by_http(rig: Rig) -> None:
    rig.server.connections.on = False
    async with rig.client(protocol="rc") as client:
        done = await client.put_from("b", "k", b"x")
    assert (done.path.value, done.protocol) == ("HTTP", None)
    assert "no RDMA connections" in str(done.reason)
