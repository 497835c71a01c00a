from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused, request

from gateway.errors import ClientError, S3Code
from gateway.s3.operations import DeleteObject, Operation
from gateway.s3.results import XmlReply


async def keys(desk: Desk) -> list[str]:
    listing = await desk.ask("ListObjectsV2", Bucket="shop")
    return [entry["Key"] for entry in listing.get("Contents", ())]


@pytest.fixture(autouse=True)
async def stored(desk: Desk) -> None:
    for key in ("a", "b", "c"):
        await desk.ask("PutObject", BytesBody(b"x"), Bucket="shop", Key=key)


async def delete(desk: Desk, *entries: dict[str, Any], quiet: bool = False) -> Any:
    wanted = {"Objects": list(entries), "Quiet": quiet}
    return await desk.ask("DeleteObjects", Bucket="shop", Delete=wanted)


async def test_delete_object__present_or_missing__is_204(desk: Desk) -> None:
    for key in ("a", "a", "never"):
        reply = await desk.ask("DeleteObject", Bucket="shop", Key=key)
        assert reply["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert await keys(desk) == ["b", "c"]


async def test_delete_object__missing_bucket__is_no_such_bucket(desk: Desk) -> None:
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask("DeleteObject", Bucket="none", Key="a")


async def test_delete_object__if_match__must_hold(desk: Desk) -> None:
    with refused(S3Code.PRECONDITION_FAILED):
        await desk.ask("DeleteObject", Bucket="shop", Key="a", IfMatch='"other"')
    assert "a" in await keys(desk)


async def test_delete_object__null_version__is_the_object(desk: Desk) -> None:
    await desk.ask("DeleteObject", Bucket="shop", Key="a", VersionId="null")
    assert await keys(desk) == ["b", "c"]


async def test_delete_objects__list__reports_each_key_in_order(desk: Desk) -> None:
    reply = await delete(desk, {"Key": "b"}, {"Key": "never"}, {"Key": "a", "VersionId": "null"})
    assert reply["Deleted"] == [
        {"Key": "b"},
        {"Key": "never"},
        {"Key": "a", "VersionId": "null"},
    ]
    assert await keys(desk) == ["c"]


async def test_delete_objects__quiet__reports_failures_only(desk: Desk) -> None:
    reply = await delete(desk, {"Key": "a"}, {"Key": "b", "ETag": '"other"'}, quiet=True)
    assert "Deleted" not in reply
    (error,) = reply["Errors"]
    assert (error["Key"], error["Code"]) == ("b", "PreconditionFailed")
    assert await keys(desk) == ["b", "c"]


async def test_delete_objects__key_that_policy_denies__fails_alone(desk: Desk) -> None:
    async def deny_b(operation: Operation) -> None:
        if operation == DeleteObject("shop", "b"):
            raise ClientError(S3Code.ACCESS_DENIED)

    desk.authorise = deny_b
    reply = await delete(desk, {"Key": "a"}, {"Key": "b"})
    assert reply["Deleted"] == [{"Key": "a"}]
    assert [error["Code"] for error in reply["Errors"]] == ["AccessDenied"]
    assert await keys(desk) == ["b", "c"]


async def test_delete_objects__key_too_long__fails_alone(desk: Desk) -> None:
    reply = await delete(desk, {"Key": "k" * 1025}, {"Key": "b"})
    assert [error["Code"] for error in reply["Errors"]] == ["KeyTooLongError"]
    assert await keys(desk) == ["a", "c"]


async def test_delete_objects__time_and_size_conditions__hold_or_fail_alone(desk: Desk) -> None:
    head = await desk.ask("HeadObject", Bucket="shop", Key="a")
    modified, size = head["LastModified"], head["ContentLength"]
    reply = await delete(
        desk,
        {"Key": "a", "LastModifiedTime": modified, "Size": size, "ETag": head["ETag"]},
        {"Key": "b", "Size": size + 1},
        {"Key": "c", "LastModifiedTime": modified - timedelta(days=1)},
        {"Key": "absent", "Size": 9},
    )
    assert [entry["Key"] for entry in reply["Deleted"]] == ["a", "absent"]
    assert [error["Code"] for error in reply["Errors"]] == ["PreconditionFailed"] * 2
    assert await keys(desk) == ["b", "c"]


async def test_delete_objects__condition_that_is_none__fails_alone_and_deletes_nothing(
    desk: Desk,
) -> None:
    head, written = request("DeleteObjects", Bucket="shop", Delete={"Objects": [{"Key": "a"}]})
    written = written.replace(b"</Key>", b"</Key><Size>many</Size>")
    reply = await desk.perform(head, BytesBody(written))
    assert isinstance(reply, XmlReply)
    assert reply.root.findtext("Error/Code") == "InvalidArgument"
    assert await keys(desk) == ["a", "b", "c"]


async def test_delete_objects__a_thousand__is_the_most(desk: Desk) -> None:
    entries = [{"Key": f"k{number}"} for number in range(1001)]
    assert len((await delete(desk, *entries[:1000]))["Deleted"]) == 1000
    with refused(S3Code.MALFORMED_XML):
        await delete(desk, *entries)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<Delete/>",
        b"<Delete><Object/></Delete>",
        b"<Delete><Object><Key/></Object></Delete>",
        b"<Remove><Object><Key>a</Key></Object></Remove>",
        b"<Delete><Object>",
    ],
)
async def test_delete_objects__no_proper_list__is_malformed_xml(
    desk: Desk, document: bytes
) -> None:
    head, _ = request("DeleteObjects", Bucket="shop", Delete={"Objects": []})
    with refused(S3Code.MALFORMED_XML):
        await desk.perform(head, BytesBody(document))
    assert await keys(desk) == ["a", "b", "c"]


async def test_delete_objects__missing_bucket__is_no_such_bucket(desk: Desk) -> None:
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask("DeleteObjects", Bucket="none", Delete={"Objects": [{"Key": "a"}]})
