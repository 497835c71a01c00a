"""Retention and legal hold of versions, and what deletes they withstand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused, request

from gateway.errors import ClientError, InternalError, S3Code
from gateway.s3.operations import BypassGovernanceRetention, Operation
from gateway.storage.port import ObjectAttributes, Retention, RetentionMode

NOW = datetime(2026, 11, 29, 21, 0, 0, tzinfo=UTC)
SOON, LATER = NOW + timedelta(days=1), NOW + timedelta(days=2)
KEY = {"Bucket": "locked", "Key": "k"}
RETAINED = Retention(RetentionMode.GOVERNANCE, int(LATER.timestamp()) * 10**9)


def until(moment: datetime, mode: str = "GOVERNANCE") -> dict[str, Any]:
    return {"Retention": {"Mode": mode, "RetainUntilDate": moment}}


@pytest.fixture
async def version(desk: Desk) -> str:
    """The id of the only version of locked/k; "shop" has "k" as well, and locks nothing."""
    desk.now_s = NOW.timestamp()
    await desk.ask("CreateBucket", Bucket="locked", ObjectLockEnabledForBucket=True)
    await desk.ask("PutObject", Bucket="shop", Key="k")
    made = await desk.ask("PutObject", BytesBody(b"abc"), **KEY)
    return str(made["VersionId"])


async def test_retention__put__comes_back_and_shows_on_head(desk: Desk, version: str) -> None:
    await desk.ask("PutObjectRetention", **KEY, **until(LATER))
    found = await desk.ask("GetObjectRetention", **KEY, VersionId=version)
    assert found["Retention"] == until(LATER)["Retention"]
    head = await desk.ask("HeadObject", **KEY)
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", LATER)


async def test_legal_hold__put__comes_back_and_shows_on_head(desk: Desk, version: str) -> None:
    assert (await desk.ask("GetObjectLegalHold", **KEY))["LegalHold"] == {"Status": "OFF"}
    for status in ("ON", "OFF"):
        await desk.ask("PutObjectLegalHold", **KEY, LegalHold={"Status": status})
        found = await desk.ask("GetObjectLegalHold", **KEY, VersionId=version)
        assert found["LegalHold"] == {"Status": status}
        head = await desk.ask("HeadObject", **KEY)
        assert head.get("ObjectLockLegalHoldStatus", "OFF") == status


@pytest.mark.usefixtures("version")
async def test_retention__never_set__is_404(desk: Desk) -> None:
    with refused(S3Code.NO_SUCH_OBJECT_LOCK_CONFIGURATION):
        await desk.ask("GetObjectRetention", **KEY)


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize(
    ("verb", "document"),
    [
        ("GetObjectRetention", {}),
        ("PutObjectRetention", until(LATER)),
        ("GetObjectLegalHold", {}),
        ("PutObjectLegalHold", {"LegalHold": {"Status": "ON"}}),
    ],
)
async def test_lock__bucket_without_locks_or_nothing_there__is_refused(
    desk: Desk, verb: str, document: dict[str, Any]
) -> None:
    with refused(S3Code.INVALID_REQUEST):
        await desk.ask(verb, Bucket="shop", Key="k", **document)
    with refused(S3Code.NO_SUCH_KEY):
        await desk.ask(verb, Bucket="locked", Key="none", **document)
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask(verb, Bucket="none", Key="k", **document)


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("verb", ["PutObjectRetention", "PutObjectLegalHold"])
@pytest.mark.parametrize("document", [b"", b"nonsense", b"<Unknown/>"])
async def test_lock__no_document__is_malformed_xml(desk: Desk, verb: str, document: bytes) -> None:
    head, _ = request(verb, **KEY)
    with refused(S3Code.MALFORMED_XML):
        await desk.perform(head, BytesBody(document))


@pytest.mark.usefixtures("version")
async def test_retention__in_the_past__is_invalid_argument(desk: Desk) -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        await desk.ask("PutObjectRetention", **KEY, **until(NOW))
    with refused(S3Code.INVALID_ARGUMENT):
        await desk.ask(
            "PutObject", **KEY, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=NOW
        )


@pytest.mark.usefixtures("version")
async def test_retention__shortened__needs_a_bypass(desk: Desk) -> None:
    await desk.ask("PutObjectRetention", **KEY, **until(LATER))
    with refused(S3Code.ACCESS_DENIED):
        await desk.ask("PutObjectRetention", **KEY, **until(SOON))
    await desk.ask("PutObjectRetention", **KEY, **until(SOON), BypassGovernanceRetention=True)
    found = await desk.ask("GetObjectRetention", **KEY)
    assert found["Retention"]["RetainUntilDate"] == SOON


async def test_delete__of_a_retained_version__needs_a_bypass_or_time(
    desk: Desk, version: str
) -> None:
    await desk.ask("PutObjectRetention", **KEY, **until(SOON))
    with refused(S3Code.ACCESS_DENIED):
        await desk.ask("DeleteObject", **KEY, VersionId=version)
    desk.now_s = SOON.timestamp()
    await desk.ask("DeleteObject", **KEY, VersionId=version)
    with refused(S3Code.NO_SUCH_KEY):
        await desk.ask("HeadObject", **KEY)


async def test_delete__with_a_bypass__removes_governed_and_never_held_versions(
    desk: Desk, version: str
) -> None:
    await desk.ask("PutObjectRetention", **KEY, **until(LATER))
    await desk.ask("PutObjectLegalHold", **KEY, LegalHold={"Status": "ON"})
    gone = {**KEY, "VersionId": version, "BypassGovernanceRetention": True}
    with refused(S3Code.ACCESS_DENIED):
        await desk.ask("DeleteObject", **gone)
    await desk.ask("PutObjectLegalHold", **KEY, LegalHold={"Status": "OFF"})
    await desk.ask("DeleteObject", **gone)
    with refused(S3Code.NO_SUCH_KEY):
        await desk.ask("HeadObject", **KEY)


async def test_delete__bypass_that_policy_denies__is_no_bypass(desk: Desk, version: str) -> None:
    asked: list[Operation] = []

    async def deny(operation: Operation) -> None:
        asked.append(operation)
        raise ClientError(S3Code.ACCESS_DENIED)

    await desk.ask("PutObjectRetention", **KEY, **until(LATER))
    desk.authorise = deny
    with refused(S3Code.ACCESS_DENIED) as caught:
        await desk.ask("DeleteObject", **KEY, VersionId=version, BypassGovernanceRetention=True)
    assert "object lock" in caught.value.message
    assert asked == [BypassGovernanceRetention("locked", "k", version)]


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize(
    ("verb", "document", "asked"),
    [
        ("PutObjectRetention", until(LATER), {"retention": RETAINED}),
        ("PutObjectLegalHold", {"LegalHold": {"Status": "ON"}}, {"legal_hold": True}),
    ],
)
async def test_lock__policy__is_asked_about_what_the_document_says(
    desk: Desk, verb: str, document: dict[str, Any], asked: dict[str, Any]
) -> None:
    async def deny(operation: Operation) -> None:
        assert operation.attributes == ObjectAttributes(**asked)  # type: ignore[attr-defined]
        raise ClientError(S3Code.ACCESS_DENIED)

    desk.authorise = deny
    for bucket in ("locked", "shop"):
        with refused(S3Code.ACCESS_DENIED):
            await desk.ask(verb, Bucket=bucket, Key="k", **document)


async def test_delete__bypass_that_can_not_be_judged__is_an_error(desk: Desk, version: str) -> None:
    async def fail(_operation: Operation) -> None:
        raise ClientError(S3Code.NO_SUCH_BUCKET)

    desk.authorise = fail
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask("DeleteObject", **KEY, VersionId=version, BypassGovernanceRetention=True)

    async def break_down(_operation: Operation) -> None:
        raise InternalError("disk")

    desk.authorise = break_down
    with refused(S3Code.INTERNAL_ERROR):
        await desk.ask("DeleteObject", **KEY, VersionId=version, BypassGovernanceRetention=True)


async def test_delete__without_a_version__hides_a_locked_object(desk: Desk, version: str) -> None:
    await desk.ask("PutObjectRetention", **KEY, **until(LATER))
    await desk.ask("DeleteObject", **KEY)
    with refused(S3Code.NO_SUCH_KEY):
        await desk.ask("HeadObject", **KEY)
    assert (await desk.ask("HeadObject", **KEY, VersionId=version))["ContentLength"] == 3


async def test_delete_objects__locked_among_others__stays_alone(desk: Desk, version: str) -> None:
    await desk.ask("PutObjectRetention", **KEY, **until(LATER))
    other = await desk.ask("PutObject", Bucket="locked", Key="other")
    listed = {
        "Objects": [
            {"Key": "k", "VersionId": version},
            {"Key": "other", "VersionId": other["VersionId"]},
        ]
    }
    found = await desk.ask("DeleteObjects", Bucket="locked", Delete=listed)
    assert [(one["Key"], one["Code"]) for one in found["Errors"]] == [("k", "AccessDenied")]
    assert [one["Key"] for one in found["Deleted"]] == ["other"]
    found = await desk.ask(
        "DeleteObjects", Bucket="locked", Delete=listed, BypassGovernanceRetention=True
    )
    assert "Errors" not in found


@pytest.mark.usefixtures("version")
async def test_default_retention__of_the_bucket__locks_put_copy_and_upload(desk: Desk) -> None:
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    configuration = {"ObjectLockEnabled": "Enabled", "Rule": rule}
    await desk.ask(
        "PutObjectLockConfiguration", Bucket="locked", ObjectLockConfiguration=configuration
    )
    await desk.ask("PutObject", Bucket="locked", Key="put")
    await desk.ask("CopyObject", Bucket="locked", Key="copy", CopySource="shop/k")
    upload = {"Bucket": "locked", "Key": "big"}
    upload["UploadId"] = (await desk.ask("CreateMultipartUpload", **upload))["UploadId"]
    part = await desk.ask("UploadPart", BytesBody(b"abc"), PartNumber=1, **upload)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    await desk.ask("CompleteMultipartUpload", MultipartUpload=parts, **upload)
    for key in ("put", "copy", "big"):
        found = await desk.ask("GetObjectRetention", Bucket="locked", Key=key)
        assert found["Retention"] == until(SOON, "COMPLIANCE")["Retention"]


@pytest.mark.usefixtures("version")
async def test_copy__lock_of_the_source__stays_behind(desk: Desk) -> None:
    await desk.ask("PutObjectRetention", **KEY, **until(LATER))
    await desk.ask("CopyObject", Bucket="shop", Key="copy", CopySource="locked/k")
    assert "ObjectLockMode" not in await desk.ask("HeadObject", Bucket="shop", Key="copy")


async def test_put__lock_in_a_bucket_without__is_invalid_request(desk: Desk) -> None:
    with refused(S3Code.INVALID_REQUEST):
        await desk.ask("PutObject", Bucket="shop", Key="k", ObjectLockLegalHoldStatus="ON")
    with refused(S3Code.INVALID_REQUEST):
        await desk.ask(
            "CreateMultipartUpload",
            Bucket="shop",
            Key="k",
            ObjectLockMode="GOVERNANCE",
            ObjectLockRetainUntilDate=LATER,
        )
