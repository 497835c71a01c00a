"""GET and HEAD: ranges, preconditions, parts and reply headers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused, request

from gateway.auth.principal import Principal
from gateway.errors import S3Code
from gateway.s3.context import Context
from gateway.s3.dispatch import perform
from gateway.s3.operations import GetObject
from gateway.s3.requester import Requester
from gateway.s3.results import ObjectReply
from gateway.storage.memory import MemoryStorage
from gateway.storage.port import ObjectInfo
from gateway.wire.byte_range import RangeSpec

MIB = 1024**2
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
FAR_OFF = datetime(2101, 1, 1, tzinfo=UTC)


@pytest.fixture
async def etag(desk: Desk) -> str:
    """The ETag of shop/k, which holds ten digits."""
    put = await desk.ask(
        "PutObject", Bucket="shop", Key="k", Body=b"0123456789", CacheControl="max-age=9"
    )
    return str(put["ETag"])


async def get(desk: Desk, **arguments: Any) -> Any:
    return await desk.ask("GetObject", Bucket="shop", Key="k", **arguments)


@pytest.mark.parametrize(
    ("text", "body", "content_range"),
    [
        ("bytes=2-5", b"2345", "bytes 2-5/10"),
        ("bytes=8-", b"89", "bytes 8-9/10"),
        ("bytes=8-99", b"89", "bytes 8-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-99", b"0123456789", "bytes 0-9/10"),
    ],
)
async def test_get__range__is_206_with_its_content_range(
    desk: Desk, etag: str, text: str, body: bytes, content_range: str
) -> None:
    found = await get(desk, Range=text)
    assert found["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert (found["Body"], found["ContentRange"]) == (body, content_range)
    head = await desk.ask("HeadObject", Bucket="shop", Key="k", Range=text)
    assert head["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert (head["ContentLength"], head["ContentRange"]) == (len(body), content_range)


@pytest.mark.parametrize("text", ["bytes=5-2", "lines=0-1", "bytes=a-b", "bytes=0-1,3-4", "bytes="])
async def test_get__malformed_range__is_200_with_everything(
    desk: Desk, etag: str, text: str
) -> None:
    found = await get(desk, Range=text)
    assert found["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert found["Body"] == b"0123456789"


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=10-12", "bytes=-0"])
async def test_get__range_beyond_the_end__is_416_with_details(
    desk: Desk, etag: str, text: str
) -> None:
    with refused(S3Code.INVALID_RANGE) as caught:
        await get(desk, Range=text)
    assert caught.value.details == {"RangeRequested": text, "ActualObjectSize": "10"}
    assert caught.value.headers == {"Content-Range": "bytes */10"}


async def test_get__range_of_an_empty_object__is_416(desk: Desk) -> None:
    await desk.ask("PutObject", Bucket="shop", Key="empty")
    with refused(S3Code.INVALID_RANGE):
        await desk.ask("GetObject", Bucket="shop", Key="empty", Range="bytes=0-0")


async def test_get__empty_object__is_200_with_nothing(desk: Desk) -> None:
    await desk.ask("PutObject", Bucket="shop", Key="empty")
    found = await desk.ask("GetObject", Bucket="shop", Key="empty")
    assert (found["Body"], found["ETag"]) == (b"", '"d41d8cd98f00b204e9800998ecf8427e"')


@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        ({"IfMatch": '"0000"'}, S3Code.PRECONDITION_FAILED),
        ({"IfUnmodifiedSince": LONG_AGO}, S3Code.PRECONDITION_FAILED),
        ({"IfModifiedSince": FAR_OFF}, S3Code.NOT_MODIFIED),
        ({"IfNoneMatch": "*"}, S3Code.NOT_MODIFIED),
    ],
)
async def test_get__failed_precondition__decides_before_the_range(
    desk: Desk, etag: str, conditions: dict[str, Any], code: S3Code
) -> None:
    with refused(code):
        await get(desk, Range="bytes=99-", **conditions)
    with refused(code):
        await desk.ask("HeadObject", Bucket="shop", Key="k", **conditions)


async def test_get__etag_conditions__compare_quoted_and_unquoted(desk: Desk, etag: str) -> None:
    assert (await get(desk, IfMatch=etag))["Body"]
    assert (await get(desk, IfMatch=etag.strip('"')))["Body"]
    for form in (etag, etag.strip('"'), f'"other", {etag}'):
        with refused(S3Code.NOT_MODIFIED):
            await get(desk, IfNoneMatch=form)


async def test_get__true_etag_condition__makes_the_date_void(desk: Desk, etag: str) -> None:
    assert (await get(desk, IfMatch=etag, IfUnmodifiedSince=LONG_AGO))["Body"]
    assert (await get(desk, IfNoneMatch='"other"', IfModifiedSince=FAR_OFF))["Body"]


async def test_get__not_modified__keeps_the_validators_and_no_checksum(
    desk: Desk, etag: str
) -> None:
    with refused(S3Code.NOT_MODIFIED) as caught:
        await get(desk, IfNoneMatch=etag, ChecksumMode="ENABLED")
    assert set(caught.value.headers) == {"etag", "last-modified", "cache-control"}
    assert caught.value.headers["etag"] == etag


async def test_get__if_range__picks_range_or_whole(desk: Desk, etag: str) -> None:
    modified = (await get(desk))["ResponseMetadata"]["HTTPHeaders"]["last-modified"]
    ranged = {etag: 206, modified: 206, '"other"': 200, f"W/{etag}": 200}
    ranged["Mon, 01 Jan 2001 00:00:00 GMT"] = 200
    for if_range, status in ranged.items():
        head, _ = request("GetObject", Bucket="shop", Key="k", Range="bytes=0-1")
        reply = await desk.perform(replace(head, headers=(*head.headers, ("if-range", if_range))))
        assert isinstance(reply, ObjectReply)
        await reply.reader.close()
        assert reply.status == status, if_range


async def test_get__checksum_mode__shows_the_checksum_of_a_whole_object_only(
    desk: Desk, etag: str
) -> None:
    whole = await get(desk, ChecksumMode="ENABLED")
    assert (whole["ChecksumType"], len(whole["ChecksumCRC64NVME"])) == ("FULL_OBJECT", 12)
    assert "ChecksumCRC64NVME" not in await get(desk)
    ranged = await get(desk, ChecksumMode="ENABLED", Range="bytes=0-4")
    assert "ChecksumCRC64NVME" not in ranged
    assert ranged["ETag"] == etag


async def test_get__attributes__come_back(desk: Desk) -> None:
    sent = {
        "ContentType": "text/plain",
        "ContentEncoding": "gzip",
        "ContentDisposition": "attachment",
        "ContentLanguage": "de",
        "CacheControl": "no-store",
        "StorageClass": "STANDARD_IA",
        "WebsiteRedirectLocation": "/other",
        "Metadata": {"colour": "blue"},
    }
    await desk.ask("PutObject", Bucket="shop", Key="k", Body=b"x", Tagging="a=b&c=d", **sent)
    for verb in ("GetObject", "HeadObject"):
        found = await desk.ask(verb, Bucket="shop", Key="k")
        assert {name: found[name] for name in sent} == sent
        assert (found["TagCount"], found["AcceptRanges"]) == (2, "bytes")


async def test_get__no_content_type__is_binary(desk: Desk, etag: str) -> None:
    found = await get(desk)
    assert found["ContentType"] == "binary/octet-stream"
    assert "StorageClass" not in found


async def test_get__overrides__replace_stored_headers(desk: Desk, etag: str) -> None:
    found = await get(desk, ResponseContentType="text/csv", ResponseCacheControl="no-cache")
    assert (found["ContentType"], found["CacheControl"]) == ("text/csv", "no-cache")


async def test_get__overrides_without_a_signature__are_refused(desk: Desk, etag: str) -> None:
    desk.principal = Principal(None)
    with refused(S3Code.INVALID_REQUEST):
        await get(desk, ResponseContentType="text/html")


async def test_get__missing_bucket_or_key__says_which(desk: Desk) -> None:
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask("GetObject", Bucket="none", Key="k")
    for verb in ("GetObject", "HeadObject"):
        with refused(S3Code.NO_SUCH_KEY):
            await desk.ask(verb, Bucket="shop", Key="none")


async def test_get__version_id__null_is_the_object_and_any_other_is_missing(
    desk: Desk, etag: str
) -> None:
    assert (await get(desk, VersionId="null"))["ETag"] == etag
    with refused(S3Code.NO_SUCH_VERSION):
        await get(desk, VersionId="abc")


async def test_get__part_of_a_plain_object__is_all_of_it(desk: Desk, etag: str) -> None:
    found = await get(desk, PartNumber=1)
    assert (found["Body"], found["ContentRange"]) == (b"0123456789", "bytes 0-9/10")
    assert "PartsCount" not in found
    with refused(S3Code.INVALID_PART_NUMBER) as caught:
        await get(desk, PartNumber=2)
    assert caught.value.details["ActualPartCount"] == "1"


async def test_get__part_of_a_multipart_object__is_that_part(desk: Desk) -> None:
    address = {"Bucket": "shop", "Key": "big"}
    upload = await desk.ask("CreateMultipartUpload", **address)
    address["UploadId"] = upload["UploadId"]
    parts = []
    for number, data in ((2, b"a" * 5 * MIB), (7, b"tail")):
        part = await desk.ask("UploadPart", BytesBody(data), PartNumber=number, **address)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    await desk.ask("CompleteMultipartUpload", MultipartUpload={"Parts": parts}, **address)
    found = await desk.ask("GetObject", Bucket="shop", Key="big", PartNumber=2)
    assert found["Body"] == b"tail"
    assert found["ContentRange"] == f"bytes {5 * MIB}-{5 * MIB + 3}/{5 * MIB + 4}"
    assert found["PartsCount"] == 2
    with refused(S3Code.INVALID_PART_NUMBER):
        await desk.ask("HeadObject", Bucket="shop", Key="big", PartNumber=3)


@pytest.mark.parametrize(
    ("byte_range", "length_bytes"),
    [(RangeSpec(0, 9, "x"), 10), (RangeSpec(9, 9, "x"), 1), (RangeSpec(8, 10, "x"), None)],
)
async def test_get__exact_extent__never_is_a_shorter_one(
    desk: Desk, storage: MemoryStorage, etag: str, byte_range: RangeSpec, length_bytes: int | None
) -> None:
    operation = GetObject("shop", "k", byte_range=byte_range, extent_exact=True)
    context = Context(storage, Requester(Principal("key")), "us-east-1")
    if length_bytes is None:
        with refused(S3Code.INVALID_RANGE):
            await perform(operation, None, context)
        return
    reply = await perform(operation, None, context)
    assert isinstance(reply, ObjectReply)
    assert reply.extent.length_bytes == length_bytes
    await reply.reader.close()


async def test_get__refusal_after_opening__closes_the_reader(
    desk: Desk, storage: MemoryStorage, etag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    opened = storage.open_object

    async def watched(*address: Any) -> Any:
        reader = await opened(*address)
        close = reader.close

        async def note() -> None:
            closed.append(True)
            await close()

        monkeypatch.setattr(type(reader), "close", lambda _: note(), raising=True)
        return reader

    monkeypatch.setattr(storage, "open_object", watched)
    with refused(S3Code.INVALID_RANGE):
        await get(desk, Range="bytes=99-")
    assert closed == [True]


async def test_replies__versioned_object__name_the_version(
    desk: Desk, storage: MemoryStorage, etag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = await storage.head_object("shop", "k", None)

    async def versioned(*_: object) -> ObjectInfo:
        return replace(plain, version_id="v1")

    monkeypatch.setattr(storage, "head_object", versioned)
    monkeypatch.setattr(storage, "commit_object", versioned)
    assert (await desk.ask("HeadObject", Bucket="shop", Key="k"))["VersionId"] == "v1"
    assert (await desk.ask("PutObject", Bucket="shop", Key="k"))["VersionId"] == "v1"
    assert "VersionId" not in await desk.ask("GetObject", Bucket="shop", Key="k")
