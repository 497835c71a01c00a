"""Completing an upload on a storage that keeps neither its parts' checksums nor its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from bodies import BytesBody
from s3_desk import Desk, refused
from storing import new_bucket

from gateway.errors import ClientError, S3Code
from gateway.storage.memory import MemoryStorage
from gateway.storage.port import ObjectInfo, PartInfo


class Forgetful(MemoryStorage):
    """As an S3 service is, seen by its replies."""

    async def list_parts(self, *where: Any) -> tuple[tuple[PartInfo, ...], bool]:
        parts, more = await super().list_parts(*where)
        return tuple(replace(part, checksums={}) for part in parts), more

    async def completed_upload(self, bucket: str, key: str, upload_id: str) -> ObjectInfo | None:
        try:
            return replace(await self.head_object(bucket, key, None), parts=())
        except ClientError:
            return None


@pytest.fixture
async def desk() -> Desk:
    storage = Forgetful()
    await storage.create_bucket(new_bucket("shop"))
    return Desk(storage)


async def begun(desk: Desk) -> dict[str, str]:
    made = await desk.ask("CreateMultipartUpload", Bucket="shop", Key="big")
    return {"Bucket": "shop", "Key": "big", "UploadId": made["UploadId"]}


async def part(desk: Desk, upload: dict[str, str], data: bytes) -> dict[str, Any]:
    reply = await desk.ask("UploadPart", BytesBody(data), PartNumber=1, **upload)
    return {"PartNumber": 1, "ETag": reply["ETag"]}


async def complete(
    desk: Desk, upload: dict[str, str], parts: Sequence[dict[str, Any]], **claims: str
) -> Any:
    listed = {"Parts": list(parts)}
    return await desk.ask("CompleteMultipartUpload", MultipartUpload=listed, **upload, **claims)


async def test_complete__no_checksums_kept__done_without_one(desk: Desk) -> None:
    upload = await begun(desk)
    reply = await complete(desk, upload, [await part(desk, upload, b"data")])
    assert not [name for name in reply if name.startswith("Checksum")]


async def test_complete__claim_about_the_whole__can_t_be_verified_and_is_refused(
    desk: Desk,
) -> None:
    upload = await begun(desk)
    parts = [await part(desk, upload, b"data")]
    with refused(S3Code.NOT_IMPLEMENTED):
        await complete(desk, upload, parts, ChecksumCRC64NVME="AAAAAAAAAAA=")


async def test_complete__again__known_by_the_object_s_etag(desk: Desk) -> None:
    upload = await begun(desk)
    parts = [await part(desk, upload, b"data")]
    first = await complete(desk, upload, parts)
    assert (await complete(desk, upload, parts))["ETag"] == first["ETag"]
    for other in ("0" * 32, "no MD5"):
        with refused(S3Code.NO_SUCH_UPLOAD):
            await complete(desk, upload, [{"PartNumber": 1, "ETag": other}])
