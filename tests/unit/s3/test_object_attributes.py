"""GetObjectAttributes through botocore's model."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from bodies import BytesBody, checksum
from s3_desk import Desk, refused

from gateway.config import MIB
from gateway.errors import S3Code
from gateway.wire.checksums import Algorithm

ALL = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
BODIES = [b"a" * (5 * MIB), b"b" * (5 * MIB), b"c"]


async def attributes(desk: Desk, wanted: list[str], **arguments: Any) -> Any:
    return await desk.ask(
        "GetObjectAttributes", Bucket="shop", Key="k", ObjectAttributes=wanted, **arguments
    )


async def upload(desk: Desk) -> None:
    """shop/k in three parts, checksummed by SHA256."""
    made = await desk.ask(
        "CreateMultipartUpload", Bucket="shop", Key="k", ChecksumAlgorithm="SHA256"
    )
    address = {"Bucket": "shop", "Key": "k", "UploadId": made["UploadId"]}
    parts = []
    for number, body in enumerate(BODIES, 1):
        part = await desk.ask("UploadPart", BytesBody(body), PartNumber=number, **address)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    await desk.ask("CompleteMultipartUpload", MultipartUpload={"Parts": parts}, **address)


async def test_attributes__plain_object__all_but_parts(desk: Desk) -> None:
    await desk.ask("PutObject", BytesBody(b"data"), Bucket="shop", Key="k")
    found = await attributes(desk, ALL)
    assert found["ETag"] == hashlib.md5(b"data").hexdigest()  # the one place without quotes
    assert found["Checksum"]["ChecksumCRC64NVME"] == checksum(Algorithm.CRC64NVME, b"data")
    assert found["Checksum"]["ChecksumType"] == "FULL_OBJECT"
    assert (found["ObjectSize"], found["StorageClass"]) == (4, "STANDARD")
    assert "ObjectParts" not in found
    assert "LastModified" in found


@pytest.mark.parametrize("one", ALL)
async def test_attributes__one_asked_for__only_that(desk: Desk, one: str) -> None:
    await upload(desk)
    found = await attributes(desk, [one])
    assert set(found) & set(ALL) == {one}


async def test_attributes__multipart__parts_with_sizes_and_checksums(desk: Desk) -> None:
    await upload(desk)
    found = await attributes(desk, ALL)
    assert found["Checksum"]["ChecksumSHA256"].endswith("-3")
    assert found["Checksum"]["ChecksumType"] == "COMPOSITE"
    parts = found["ObjectParts"]
    assert (parts["TotalPartsCount"], parts["IsTruncated"]) == (3, False)
    assert parts["Parts"] == [
        {
            "PartNumber": number,
            "Size": len(body),
            "ChecksumSHA256": checksum(Algorithm.SHA256, body),
        }
        for number, body in enumerate(BODIES, 1)
    ]


async def test_attributes__a_page_of_parts__says_where_the_next_begins(desk: Desk) -> None:
    await upload(desk)
    page = (await attributes(desk, ["ObjectParts"], MaxParts=1, PartNumberMarker=1))["ObjectParts"]
    assert [part["PartNumber"] for part in page["Parts"]] == [2]
    assert (page["MaxParts"], page["PartNumberMarker"]) == (1, 1)
    assert (page["NextPartNumberMarker"], page["IsTruncated"]) == (2, True)
    last = (await attributes(desk, ["ObjectParts"], PartNumberMarker=2))["ObjectParts"]
    assert [part["PartNumber"] for part in last["Parts"]] == [3]
    assert last["IsTruncated"] is False
    none = (await attributes(desk, ["ObjectParts"], PartNumberMarker=3))["ObjectParts"]
    assert "Parts" not in none


@pytest.mark.parametrize("wanted", [[], ["ETag", "Colour"]])
async def test_attributes__none_or_unknown__is_invalid_argument(
    desk: Desk, wanted: list[str]
) -> None:
    await desk.ask("PutObject", BytesBody(b"data"), Bucket="shop", Key="k")
    with refused(S3Code.INVALID_ARGUMENT):
        await attributes(desk, wanted)


async def test_attributes__missing__is_no_such_key(desk: Desk) -> None:
    with refused(S3Code.NO_SUCH_KEY):
        await attributes(desk, ["ETag"])


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_get__part_number__carries_that_parts_checksum(desk: Desk, number: int) -> None:
    await upload(desk)
    found = await desk.ask(
        "GetObject", Bucket="shop", Key="k", PartNumber=number, ChecksumMode="ENABLED"
    )
    assert found["Body"] == BODIES[number - 1]
    assert found["ChecksumSHA256"] == checksum(Algorithm.SHA256, BODIES[number - 1])
    assert (found["ChecksumType"], found["PartsCount"]) == ("COMPOSITE", 3)
