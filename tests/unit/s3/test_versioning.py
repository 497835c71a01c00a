"""Versioning as botocore asks for it and reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused, request

from gateway.errors import S3Code


async def switch(desk: Desk, status: str) -> None:
    configuration = {"Status": status}
    await desk.ask("PutBucketVersioning", Bucket="shop", VersioningConfiguration=configuration)


async def put(desk: Desk, body: bytes, key: str = "k") -> str:
    """The new version's id."""
    reply = await desk.ask("PutObject", BytesBody(body), Bucket="shop", Key=key)
    return str(reply["VersionId"])


async def get(desk: Desk, **arguments: Any) -> Any:
    return await desk.ask("GetObject", Bucket="shop", Key="k", **arguments)


@pytest.fixture
async def versioned(desk: Desk) -> Desk:
    await switch(desk, "Enabled")
    return desk


# The configuration


async def test_versioning__never_set__has_no_status(desk: Desk) -> None:
    assert "Status" not in await desk.ask("GetBucketVersioning", Bucket="shop")


@pytest.mark.parametrize("status", ["Enabled", "Suspended"])
async def test_versioning__set__is_given_back(desk: Desk, status: str) -> None:
    await switch(desk, status)
    found = await desk.ask("GetBucketVersioning", Bucket="shop")
    assert found["Status"] == status


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (b"", S3Code.MALFORMED_XML),
        (b"<VersioningConfiguration/>", S3Code.MALFORMED_XML),
        (
            b"<VersioningConfiguration><Status>enabled</Status></VersioningConfiguration>",
            S3Code.MALFORMED_XML,
        ),
        (b"<Versioning><Status>Enabled</Status></Versioning>", S3Code.MALFORMED_XML),
        (
            b"<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>"
            b"</VersioningConfiguration>",
            S3Code.NOT_IMPLEMENTED,
        ),
    ],
)
async def test_versioning__document_that_is_none__is_refused(
    desk: Desk, document: bytes, code: S3Code
) -> None:
    head, _ = request("PutBucketVersioning", Bucket="shop", VersioningConfiguration={})
    with refused(code):
        await desk.perform(head, BytesBody(document))
    assert "Status" not in await desk.ask("GetBucketVersioning", Bucket="shop")


async def test_versioning__suspended_under_object_lock__is_invalid_bucket_state(
    versioned: Desk,
) -> None:
    await versioned.storage.update_bucket("shop", lambda info: replace(info, object_lock=True))
    with refused(S3Code.INVALID_BUCKET_STATE):
        await switch(versioned, "Suspended")
    await switch(versioned, "Enabled")


# Objects


async def test_get__by_version_id__is_that_version(versioned: Desk) -> None:
    first, second = await put(versioned, b"first"), await put(versioned, b"second")
    assert first != second
    found = await get(versioned, VersionId=first)
    assert (found["Body"], found["VersionId"]) == (b"first", first)
    latest = await get(versioned)
    assert (latest["Body"], latest["VersionId"]) == (b"second", second)
    head = await versioned.ask("HeadObject", Bucket="shop", Key="k", VersionId=first)
    assert (head["ContentLength"], head["VersionId"]) == (5, first)


async def test_delete__latest__makes_a_marker_that_hides_the_key(versioned: Desk) -> None:
    kept = await put(versioned, b"data")
    marker = await versioned.ask("DeleteObject", Bucket="shop", Key="k")
    assert marker["DeleteMarker"] is True
    with refused(S3Code.NO_SUCH_KEY) as caught:
        await get(versioned)
    assert caught.value.headers["x-amz-delete-marker"] == "true"
    assert caught.value.headers["x-amz-version-id"] == marker["VersionId"]
    with refused(S3Code.METHOD_NOT_ALLOWED) as caught:
        await get(versioned, VersionId=marker["VersionId"])
    assert caught.value.headers["x-amz-delete-marker"] == "true"
    assert (await get(versioned, VersionId=kept))["Body"] == b"data"
    undone = await versioned.ask(
        "DeleteObject", Bucket="shop", Key="k", VersionId=marker["VersionId"]
    )
    assert (undone["DeleteMarker"], undone["VersionId"]) == (True, marker["VersionId"])
    assert (await get(versioned))["VersionId"] == kept


async def test_delete__a_version__says_which_and_is_no_marker(versioned: Desk) -> None:
    version_id = await put(versioned, b"data")
    reply = await versioned.ask("DeleteObject", Bucket="shop", Key="k", VersionId=version_id)
    assert reply["VersionId"] == version_id
    assert "DeleteMarker" not in reply
    with refused(S3Code.NO_SUCH_VERSION):
        await get(versioned, VersionId=version_id)


async def test_delete__unversioned__says_nothing_of_versions(desk: Desk) -> None:
    await desk.ask("PutObject", BytesBody(b"x"), Bucket="shop", Key="k")
    reply = await desk.ask("DeleteObject", Bucket="shop", Key="k")
    assert not {"VersionId", "DeleteMarker"} & set(reply)


async def test_delete_objects__markers_made_and_removed__are_shown_as_such(
    versioned: Desk,
) -> None:
    version_id = await put(versioned, b"data")
    made = await versioned.ask(
        "DeleteObjects", Bucket="shop", Delete={"Objects": [{"Key": "k"}, {"Key": "new"}]}
    )
    first, second = made["Deleted"]
    assert (first["Key"], first["DeleteMarker"]) == ("k", True)
    assert first["DeleteMarkerVersionId"] != second["DeleteMarkerVersionId"]
    assert "VersionId" not in first
    marker_id = first["DeleteMarkerVersionId"]
    objects = [{"Key": "k", "VersionId": one} for one in (marker_id, version_id)]
    removed = await versioned.ask("DeleteObjects", Bucket="shop", Delete={"Objects": objects})
    assert removed["Deleted"] == [
        {
            "Key": "k",
            "VersionId": marker_id,
            "DeleteMarker": True,
            "DeleteMarkerVersionId": marker_id,
        },
        {"Key": "k", "VersionId": version_id},
    ]


async def test_copy__source_version__is_copied_and_both_are_named(versioned: Desk) -> None:
    old = await put(versioned, b"old")
    await put(versioned, b"new")
    text = f"shop/k?versionId={old}"
    reply = await versioned.ask("CopyObject", Bucket="shop", Key="k", CopySource=text)
    assert reply["CopySourceVersionId"] == old
    found = await get(versioned)
    assert (found["Body"], found["VersionId"]) == (b"old", reply["VersionId"])
    upload = await versioned.ask("CreateMultipartUpload", Bucket="shop", Key="up")
    part = await versioned.ask(
        "UploadPartCopy",
        Bucket="shop",
        Key="up",
        UploadId=upload["UploadId"],
        PartNumber=1,
        CopySource=text,
    )
    assert part["CopySourceVersionId"] == old


async def test_copy__source_is_a_marker__is_not_there(versioned: Desk) -> None:
    await put(versioned, b"data")
    marker = await versioned.ask("DeleteObject", Bucket="shop", Key="k")
    for source, code in (
        ("shop/k", S3Code.NO_SUCH_KEY),
        (f"shop/k?versionId={marker['VersionId']}", S3Code.METHOD_NOT_ALLOWED),
    ):
        with refused(code):
            await versioned.ask("CopyObject", Bucket="shop", Key="x", CopySource=source)


async def test_complete__versioned__names_the_version(versioned: Desk) -> None:
    upload = await versioned.ask("CreateMultipartUpload", Bucket="shop", Key="k")
    address = {"Bucket": "shop", "Key": "k", "UploadId": upload["UploadId"]}
    part = await versioned.ask("UploadPart", BytesBody(b"part"), PartNumber=1, **address)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    done = await versioned.ask("CompleteMultipartUpload", MultipartUpload=parts, **address)
    assert (await get(versioned, VersionId=done["VersionId"]))["Body"] == b"part"


# The list


async def test_list_versions__versions_and_markers__newest_first(versioned: Desk) -> None:
    ids = [await put(versioned, b"%d" % number) for number in range(2)]
    marker = (await versioned.ask("DeleteObject", Bucket="shop", Key="k"))["VersionId"]
    other = await put(versioned, b"x", key="other")
    page = await versioned.ask("ListObjectVersions", Bucket="shop")
    shown = [(one["Key"], one["VersionId"], one["IsLatest"]) for one in page["Versions"]]
    assert shown == [("k", ids[1], False), ("k", ids[0], False), ("other", other, True)]
    (found,) = page["DeleteMarkers"]
    assert (found["VersionId"], found["IsLatest"]) == (marker, True)
    assert found["Owner"] == page["Versions"][0]["Owner"]
    assert "Size" not in found


@pytest.mark.parametrize("max_keys", [1, 2, 3])
async def test_list_versions__paged__every_entry_once(versioned: Desk, max_keys: int) -> None:
    for key in ("a", "d/1", "d/2", "k", "k", "k"):
        await put(versioned, b"", key=key)
    await versioned.ask("DeleteObject", Bucket="shop", Key="k")
    seen: list[tuple[str, str]] = []
    markers: dict[str, str] = {}
    while True:
        page = await versioned.ask(
            "ListObjectVersions", Bucket="shop", MaxKeys=max_keys, Delimiter="/", **markers
        )
        entries = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        seen += [(entry["Key"], entry["VersionId"]) for entry in entries]
        seen += [(one["Prefix"], "") for one in page.get("CommonPrefixes", ())]
        if not page["IsTruncated"]:
            break
        markers = {"KeyMarker": page["NextKeyMarker"]}
        if "NextVersionIdMarker" in page:
            markers["VersionIdMarker"] = page["NextVersionIdMarker"]
    assert sorted(key for key, _ in seen) == ["a", "d/", "k", "k", "k", "k"]
    assert len(set(seen)) == 6
