from __future__ import annotations

from typing import Any

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused, request

from gateway.errors import ClientError, S3Code
from gateway.s3.operations import Operation, PutObjectTagging
from gateway.storage.port import ObjectAttributes


def tagging(**tags: str) -> dict[str, Any]:
    return {"Tagging": {"TagSet": [{"Key": key, "Value": value} for key, value in tags.items()]}}


async def tags_of(desk: Desk, key: str = "k") -> dict[str, str]:
    found = await desk.ask("GetObjectTagging", Bucket="shop", Key=key)
    return {one["Key"]: one["Value"] for one in found["TagSet"]}


async def test_object_tagging__of_the_put__comes_back_sorted_by_key(desk: Desk) -> None:
    await desk.ask("PutObject", Bucket="shop", Key="k", Tagging="b=2&a=1")
    found = await desk.ask("GetObjectTagging", Bucket="shop", Key="k")
    assert found["TagSet"] == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    assert (await desk.ask("HeadObject", Bucket="shop", Key="k"))["TagCount"] == 2


async def test_object_tagging__put_replaced_and_deleted__is_what_was_said_last(desk: Desk) -> None:
    await desk.ask("PutObject", BytesBody(b"abc"), Bucket="shop", Key="k")
    before = await desk.ask("HeadObject", Bucket="shop", Key="k")
    assert await tags_of(desk) == {}
    await desk.ask("PutObjectTagging", Bucket="shop", Key="k", **tagging(a="1", b="2"))
    await desk.ask("PutObjectTagging", Bucket="shop", Key="k", **tagging(c="3"))
    assert await tags_of(desk) == {"c": "3"}
    gone = await desk.ask("DeleteObjectTagging", Bucket="shop", Key="k")
    assert gone["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert await tags_of(desk) == {}
    assert await desk.ask("HeadObject", Bucket="shop", Key="k") == before


async def test_object_tagging__eleven__are_refused_and_change_nothing(desk: Desk) -> None:
    await desk.ask("PutObject", Bucket="shop", Key="k", Tagging="a=1")
    with refused(S3Code.INVALID_TAG):
        await desk.ask(
            "PutObjectTagging",
            Bucket="shop",
            Key="k",
            **tagging(**{f"k{number}": "" for number in range(11)}),
        )
    assert await tags_of(desk) == {"a": "1"}


async def test_object_tagging__no_document__is_malformed_xml(desk: Desk) -> None:
    await desk.ask("PutObject", Bucket="shop", Key="k")
    head, _ = request("PutObjectTagging", Bucket="shop", Key="k", **tagging())
    with refused(S3Code.MALFORMED_XML):
        await desk.perform(head, BytesBody(b""))


async def test_object_tagging__policy__is_asked_about_the_documents_tags(desk: Desk) -> None:
    async def deny(operation: Operation) -> None:
        assert operation == PutObjectTagging(
            "shop", "k", attributes=ObjectAttributes(tags=(("a", "1"),))
        )
        raise ClientError(S3Code.ACCESS_DENIED)

    desk.authorise = deny
    with refused(S3Code.ACCESS_DENIED):
        await desk.ask("PutObjectTagging", Bucket="shop", Key="k", **tagging(a="1"))


@pytest.mark.parametrize("verb", ["GetObjectTagging", "PutObjectTagging", "DeleteObjectTagging"])
async def test_object_tagging__of_what_is_not_there__is_404(desk: Desk, verb: str) -> None:
    document = tagging(a="1") if verb.startswith("Put") else {}
    with refused(S3Code.NO_SUCH_KEY):
        await desk.ask(verb, Bucket="shop", Key="none", **document)
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask(verb, Bucket="none", Key="k", **document)


@pytest.mark.parametrize(
    ("directive", "expected"), [(None, {"a": "1"}), ("COPY", {"a": "1"}), ("REPLACE", {"b": "2"})]
)
async def test_copy__tagging_directive__says_whose_tags(
    desk: Desk, directive: str | None, expected: dict[str, str]
) -> None:
    await desk.ask("PutObject", Bucket="shop", Key="k", Tagging="a=1")
    chosen = {"TaggingDirective": directive} if directive else {}
    await desk.ask(
        "CopyObject", Bucket="shop", Key="copy", CopySource="shop/k", Tagging="b=2", **chosen
    )
    assert await tags_of(desk, "copy") == expected


async def test_object_tagging__of_a_version__is_that_versions_own(desk: Desk) -> None:
    await desk.ask("CreateBucket", Bucket="locked", ObjectLockEnabledForBucket=True)
    first = await desk.ask("PutObject", Bucket="locked", Key="k", Tagging="a=1")
    await desk.ask("PutObject", Bucket="locked", Key="k", Tagging="b=2")
    version = {"Bucket": "locked", "Key": "k", "VersionId": first["VersionId"]}
    put = await desk.ask("PutObjectTagging", **version, **tagging(c="3"))
    found = await desk.ask("GetObjectTagging", **version)
    latest = await desk.ask("GetObjectTagging", Bucket="locked", Key="k")
    assert put["VersionId"] == found["VersionId"] == first["VersionId"]
    assert found["TagSet"] == [{"Key": "c", "Value": "3"}]
    assert latest["TagSet"] == [{"Key": "b", "Value": "2"}]
