from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
from bodies import BytesBody, checksum
from s3_desk import Desk, refused

from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.s3.operations import GetObject, Operation
from gateway.s3.staging import SourceBody
from gateway.storage.memory import MemoryStorage
from gateway.wire.checksums import Algorithm
from gateway.wire.extent import Extent

DATA = bytes(range(256)) * 12_000  # three copy chunks, the last one short
ATTRIBUTES = {"ContentType": "text/plain", "Metadata": {"a": "b"}}


@pytest.fixture(autouse=True)
async def source(desk: Desk) -> Any:
    """shop/src, with attributes and a tag."""
    return await desk.ask(
        "PutObject", BytesBody(DATA), Bucket="shop", Key="src", Tagging="t=1", **ATTRIBUTES
    )


async def copy(desk: Desk, key: str = "dst", source: str = "shop/src", **arguments: Any) -> Any:
    return await desk.ask("CopyObject", Bucket="shop", Key=key, CopySource=source, **arguments)


async def test_copy__plain__takes_bytes_metadata_and_tags_along(desk: Desk) -> None:
    made = (await copy(desk))["CopyObjectResult"]
    found = await desk.ask("GetObject", Bucket="shop", Key="dst", ChecksumMode="ENABLED")
    assert found["Body"] == DATA
    assert made["ETag"] == found["ETag"] == f'"{hashlib.md5(DATA).hexdigest()}"'
    assert made["LastModified"] == found["LastModified"]
    assert {name: found[name] for name in ATTRIBUTES} == ATTRIBUTES
    assert found["TagCount"] == 1
    assert found["ChecksumCRC64NVME"] == checksum(Algorithm.CRC64NVME, DATA)


async def test_copy__replace__takes_only_what_was_sent(desk: Desk) -> None:
    await copy(
        desk,
        MetadataDirective="REPLACE",
        TaggingDirective="REPLACE",
        ContentType="text/csv",
        Metadata={"c": "d"},
    )
    found = await desk.ask("HeadObject", Bucket="shop", Key="dst")
    assert (found["ContentType"], found["Metadata"]) == ("text/csv", {"c": "d"})
    assert "TagCount" not in found


async def test_copy__storage_class_and_redirect__are_the_requests(desk: Desk) -> None:
    await copy(desk, StorageClass="GLACIER", WebsiteRedirectLocation="/there")
    await copy(desk, key="next", source="shop/dst")
    first = await desk.ask("HeadObject", Bucket="shop", Key="dst")
    second = await desk.ask("HeadObject", Bucket="shop", Key="next")
    assert (first["StorageClass"], first["WebsiteRedirectLocation"]) == ("GLACIER", "/there")
    assert "StorageClass" not in second
    assert "WebsiteRedirectLocation" not in second


async def test_copy__checksum_algorithm__is_computed_over_the_bytes(desk: Desk) -> None:
    made = (await copy(desk, ChecksumAlgorithm="SHA256"))["CopyObjectResult"]
    assert made["ChecksumSHA256"] == checksum(Algorithm.SHA256, DATA)
    assert made["ChecksumType"] == "FULL_OBJECT"


async def test_copy__onto_itself_without_a_change__is_invalid_request(desk: Desk) -> None:
    with refused(S3Code.INVALID_REQUEST):
        await copy(desk, key="src")


@pytest.mark.parametrize(
    "change", [{"MetadataDirective": "REPLACE"}, {"StorageClass": "STANDARD_IA"}]
)
async def test_copy__onto_itself_with_a_change__rewrites_it(
    desk: Desk, change: dict[str, str]
) -> None:
    await copy(desk, key="src", **change)
    found = await desk.ask("GetObject", Bucket="shop", Key="src")
    assert found["Body"] == DATA
    assert found["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize(
    "conditions",
    [
        {"CopySourceIfMatch": '"other"'},
        {"CopySourceIfNoneMatch": "*"},
        {"CopySourceIfModifiedSince": datetime(2101, 1, 1, tzinfo=UTC)},
        {"CopySourceIfUnmodifiedSince": datetime(2001, 1, 1, tzinfo=UTC)},
    ],
)
async def test_copy__failed_source_condition__is_412(
    desk: Desk, conditions: dict[str, Any]
) -> None:
    with refused(S3Code.PRECONDITION_FAILED):
        await copy(desk, **conditions)


async def test_copy__if_none_match_on_the_target__is_412(desk: Desk) -> None:
    await copy(desk, IfNoneMatch="*")
    with refused(S3Code.PRECONDITION_FAILED):
        await copy(desk, IfNoneMatch="*")


async def test_copy__source_key_with_odd_characters__is_found(desk: Desk) -> None:
    key = "a/b?versionId=x %2F+ü"
    await desk.ask("PutObject", BytesBody(b"odd"), Bucket="shop", Key=key)
    await desk.ask(
        "CopyObject",
        Bucket="shop",
        Key="dst",
        CopySource="shop/a%2Fb%3FversionId%3Dx%20%252F%2B%C3%BC?versionId=null",
    )
    assert (await desk.ask("GetObject", Bucket="shop", Key="dst"))["Body"] == b"odd"


async def test_copy__missing_source__says_what_is_missing(desk: Desk) -> None:
    with refused(S3Code.NO_SUCH_KEY):
        await copy(desk, source="shop/none")
    with refused(S3Code.NO_SUCH_BUCKET):
        await copy(desk, source="none/src")
    with refused(S3Code.NO_SUCH_VERSION):
        await copy(desk, source="shop/src?versionId=abc")


async def test_copy__missing_target_bucket__is_no_such_bucket(desk: Desk) -> None:
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask("CopyObject", Bucket="none", Key="dst", CopySource="shop/src")


async def test_copy__source_that_policy_denies__is_access_denied(desk: Desk) -> None:
    asked: list[Operation] = []

    async def deny(operation: Operation) -> None:
        asked.append(operation)
        raise ClientError(S3Code.ACCESS_DENIED)

    desk.authorise = deny
    with refused(S3Code.ACCESS_DENIED):
        await copy(desk)
    assert asked == [GetObject("shop", "src")]


async def test_copy__source_over_the_limit__is_invalid_request(desk: Desk) -> None:
    desk.limits = HttpLimits(max_object_bytes=len(DATA) - 1)
    with refused(S3Code.INVALID_REQUEST):
        await copy(desk)


async def test_source_body__read__is_the_extent_within_the_limit(storage: MemoryStorage) -> None:
    reader = await storage.open_object("shop", "src", None)
    body = SourceBody(reader, Extent(10, 5))
    assert await body.read(5) == DATA[10:15]
    with refused(S3Code.MAX_MESSAGE_LENGTH_EXCEEDED):
        await body.read(4)
    await reader.close()
