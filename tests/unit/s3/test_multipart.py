"""Multipart uploads from create to complete, as clients do them and as peers got them wrong."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
from bodies import BytesBody, checksum
from s3_desk import Desk, refused, request

from gateway.config import HttpLimits
from gateway.errors import ClientError, S3Code
from gateway.s3.operations import GetObject, Operation
from gateway.wire.checksums import Algorithm

MIB = 1024**2
FULL = b"a" * 5 * MIB
TAIL = b"tail"


class Upload:
    """One upload to shop/big."""

    def __init__(self, desk: Desk, upload_id: str) -> None:
        self._desk = desk
        self.address = {"Bucket": "shop", "Key": "big", "UploadId": upload_id}

    @classmethod
    async def begin(cls, desk: Desk, **arguments: Any) -> Upload:
        made = await desk.ask("CreateMultipartUpload", Bucket="shop", Key="big", **arguments)
        assert (made["Bucket"], made["Key"]) == ("shop", "big")
        return cls(desk, made["UploadId"])

    async def part(self, number: int, data: bytes, *declared: Algorithm) -> dict[str, Any]:
        body = BytesBody(data, *declared)
        reply = await self._desk.ask("UploadPart", body, PartNumber=number, **self.address)
        return {"PartNumber": number, "ETag": reply["ETag"]}

    async def complete(self, *parts: dict[str, Any], **arguments: Any) -> Any:
        return await self._desk.ask(
            "CompleteMultipartUpload",
            MultipartUpload={"Parts": list(parts)},
            **self.address,
            **arguments,
        )

    async def abort(self) -> None:
        await self._desk.ask("AbortMultipartUpload", **self.address)


@pytest.fixture
async def upload(desk: Desk) -> Upload:
    return await Upload.begin(desk)


async def content(desk: Desk) -> bytes:
    return bytes((await desk.ask("GetObject", Bucket="shop", Key="big"))["Body"])


async def test_complete__two_parts__is_one_object_with_its_etag(desk: Desk, upload: Upload) -> None:
    parts = [await upload.part(1, FULL), await upload.part(2, TAIL)]
    done = await upload.complete(*parts)
    md5s = hashlib.md5(FULL).digest() + hashlib.md5(TAIL).digest()
    assert done["ETag"] == f'"{hashlib.md5(md5s).hexdigest()}-2"'
    assert (done["Bucket"], done["Key"], done["Location"]) == ("shop", "big", "/shop/big")
    assert await content(desk) == FULL + TAIL
    assert (await desk.ask("HeadObject", Bucket="shop", Key="big"))["ETag"] == done["ETag"]


async def test_complete__attributes__are_those_of_create(desk: Desk) -> None:
    upload = await Upload.begin(desk, ContentType="text/plain", Metadata={"a": "b"}, Tagging="t=1")
    await upload.complete(await upload.part(1, b"x"))
    found = await desk.ask("HeadObject", Bucket="shop", Key="big")
    assert (found["ContentType"], found["Metadata"], found["TagCount"]) == (
        "text/plain",
        {"a": "b"},
        1,
    )


async def test_complete__no_algorithm_chosen__crc64nvme_equals_that_of_a_single_put(
    desk: Desk, upload: Upload
) -> None:
    # What a client declares for a part does not change how the object is checksummed.
    parts = [await upload.part(1, FULL, Algorithm.CRC32), await upload.part(2, TAIL)]
    done = await upload.complete(*parts)
    single = await desk.ask("PutObject", BytesBody(FULL + TAIL), Bucket="shop", Key="single")
    assert done["ChecksumCRC64NVME"] == single["ChecksumCRC64NVME"]
    assert done["ChecksumType"] == "FULL_OBJECT"


@pytest.mark.parametrize("algorithm", [Algorithm.CRC32, Algorithm.CRC32C, Algorithm.CRC64NVME])
async def test_complete__full_object_crc__is_the_whole_objects(
    desk: Desk, algorithm: Algorithm
) -> None:
    upload = await Upload.begin(desk, ChecksumAlgorithm=algorithm.label, ChecksumType="FULL_OBJECT")
    whole = checksum(algorithm, FULL + TAIL)
    parts = [await upload.part(1, FULL, algorithm), await upload.part(2, TAIL)]
    done = await upload.complete(*parts, **{algorithm.element: whole})
    assert (done[algorithm.element], done["ChecksumType"]) == (whole, "FULL_OBJECT")
    found = await desk.ask("HeadObject", Bucket="shop", Key="big", ChecksumMode="ENABLED")
    assert (found[algorithm.element], found["ChecksumType"]) == (whole, "FULL_OBJECT")


@pytest.mark.parametrize("algorithm", [Algorithm.CRC32, Algorithm.SHA1, Algorithm.SHA256])
async def test_complete__composite_checksum__is_over_the_parts_checksums(
    desk: Desk, algorithm: Algorithm
) -> None:
    upload = await Upload.begin(desk, ChecksumAlgorithm=algorithm.label)
    parts = [await upload.part(1, FULL, algorithm), await upload.part(2, TAIL, algorithm)]
    for part, data in zip(parts, (FULL, TAIL), strict=True):
        part[algorithm.element] = checksum(algorithm, data)
    raw = b"".join(base64.b64decode(part[algorithm.element]) for part in parts)
    done = await upload.complete(*parts)
    assert done[algorithm.element] == f"{checksum(algorithm, raw)}-2"
    assert done["ChecksumType"] == "COMPOSITE"


@pytest.mark.parametrize(
    ("claim", "code"),
    [
        ({"ChecksumCRC64NVME": checksum(Algorithm.CRC64NVME, b"other")}, S3Code.BAD_DIGEST),
        ({"ChecksumCRC32": checksum(Algorithm.CRC32, b"x")}, S3Code.INVALID_REQUEST),
        ({"ChecksumType": "COMPOSITE"}, S3Code.INVALID_REQUEST),
        ({"MpuObjectSize": 2}, S3Code.INVALID_REQUEST),
    ],
)
async def test_complete__false_claim_of_the_object__is_refused_and_can_be_repeated(
    upload: Upload, claim: dict[str, Any], code: S3Code
) -> None:
    part = await upload.part(1, b"x")
    with refused(code):
        await upload.complete(part, **claim)
    assert await upload.complete(part, MpuObjectSize=1)


async def test_complete__parts_not_ascending__is_invalid_part_order(upload: Upload) -> None:
    first, second = await upload.part(1, FULL), await upload.part(2, FULL)
    for order in ((second, first), (first, first)):
        with refused(S3Code.INVALID_PART_ORDER):
            await upload.complete(*order)


@pytest.mark.parametrize(
    "wrong",
    [
        {"PartNumber": 2},
        {"ETag": '"0123456789abcdef0123456789abcdef"'},
        {"ETag": "not even hex"},
        {"ChecksumCRC64NVME": "AAAAAAAAAAA="},
    ],
)
async def test_complete__part_that_is_not_there__is_invalid_part(
    upload: Upload, wrong: dict[str, Any]
) -> None:
    part = await upload.part(1, b"x")
    with refused(S3Code.INVALID_PART):
        await upload.complete({**part, **wrong})


async def test_complete__etag_without_quotes__is_taken(upload: Upload) -> None:
    part = await upload.part(1, b"x")
    assert await upload.complete({**part, "ETag": part["ETag"].strip('"')})


async def test_complete__small_part_before_the_last__is_entity_too_small(upload: Upload) -> None:
    parts = [await upload.part(1, FULL[1:]), await upload.part(2, TAIL)]
    with refused(S3Code.ENTITY_TOO_SMALL) as caught:
        await upload.complete(*parts)
    assert caught.value.details == {
        "ProposedSize": str(5 * MIB - 1),
        "MinSizeAllowed": str(5 * MIB),
        "PartNumber": "1",
        "ETag": hashlib.md5(FULL[1:]).hexdigest(),
    }


async def test_complete__parts_left_out__are_not_in_the_object(desk: Desk, upload: Upload) -> None:
    first, last = await upload.part(1, FULL), await upload.part(9, TAIL)
    await upload.part(5, b"left out")
    await upload.complete(first, last)
    assert await content(desk) == FULL + TAIL


async def test_complete__part_replaced__counts_as_its_last_upload(
    desk: Desk, upload: Upload
) -> None:
    old = await upload.part(1, b"old")
    new = await upload.part(1, b"new")
    with refused(S3Code.INVALID_PART):
        await upload.complete(old)
    await upload.complete(new)
    assert await content(desk) == b"new"


async def test_complete__empty_part__is_an_empty_object(desk: Desk, upload: Upload) -> None:
    await upload.complete(await upload.part(1, b""))
    assert await content(desk) == b""


async def test_complete__repeated__answers_the_same(desk: Desk, upload: Upload) -> None:
    part = await upload.part(1, b"x")
    first = await upload.complete(part)
    second = await upload.complete(part)
    for one in (first, second):
        one.pop("ResponseMetadata")
    assert first == second
    with refused(S3Code.NO_SUCH_UPLOAD):
        await upload.complete({**part, "ETag": '"other"'})


async def test_complete__more_than_one_page_of_parts__finds_them_all(desk: Desk) -> None:
    upload = await Upload.begin(desk)
    for number in range(1, 1003):
        part = await upload.part(number, b"%d" % number)
    await upload.complete(part)
    assert await content(desk) == b"1002"


async def test_complete__if_none_match__is_judged_when_it_publishes(
    desk: Desk, upload: Upload
) -> None:
    part = await upload.part(1, b"x")
    await desk.ask("PutObject", Bucket="shop", Key="big")
    with refused(S3Code.PRECONDITION_FAILED):
        await upload.complete(part, IfNoneMatch="*")
    assert await content(desk) == b""


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<CompleteMultipartUpload/>",
        b"<CompleteMultipartUpload><Part><ETag>a</ETag></Part></CompleteMultipartUpload>",
        b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part>"
        b"</CompleteMultipartUpload>",
        b"<Complete><Part><PartNumber>1</PartNumber><ETag>a</ETag></Part></Complete>",
    ],
)
async def test_complete__no_proper_list__is_malformed_xml(
    desk: Desk, upload: Upload, document: bytes
) -> None:
    head, _ = request("CompleteMultipartUpload", MultipartUpload={}, **upload.address)
    with refused(S3Code.MALFORMED_XML):
        await desk.perform(head, BytesBody(document))


async def test_abort__late__never_harms_the_finished_object(desk: Desk, upload: Upload) -> None:
    await upload.complete(await upload.part(1, b"x"))
    with refused(S3Code.NO_SUCH_UPLOAD):
        await upload.abort()
    assert await content(desk) == b"x"


async def test_abort__upload__is_gone_with_its_parts(upload: Upload) -> None:
    part = await upload.part(1, b"x")
    await upload.abort()
    for attempt in (upload.part(2, b"y"), upload.complete(part), upload.abort()):
        with refused(S3Code.NO_SUCH_UPLOAD):
            await attempt


async def test_upload__unknown_or_another_keys__is_no_such_upload(
    desk: Desk, upload: Upload
) -> None:
    for change in ({"UploadId": "none"}, {"Key": "other"}):
        with refused(S3Code.NO_SUCH_UPLOAD):
            await desk.ask("UploadPart", PartNumber=1, **{**upload.address, **change})


async def test_create__missing_bucket__is_no_such_bucket(desk: Desk) -> None:
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask("CreateMultipartUpload", Bucket="none", Key="big")


async def test_create__checksum_choice__is_echoed(desk: Desk) -> None:
    made = await desk.ask(
        "CreateMultipartUpload", Bucket="shop", Key="big", ChecksumAlgorithm="CRC32"
    )
    assert (made["ChecksumAlgorithm"], made["ChecksumType"]) == ("CRC32", "COMPOSITE")


async def test_upload_part__declared_checksum__is_echoed(desk: Desk) -> None:
    upload = await Upload.begin(desk, ChecksumAlgorithm="SHA256")
    reply = await desk.ask(
        "UploadPart", BytesBody(b"x", Algorithm.SHA256), PartNumber=1, **upload.address
    )
    assert reply["ChecksumSHA256"] == checksum(Algorithm.SHA256, b"x")
    assert "ChecksumCRC64NVME" not in reply


async def test_upload_part__another_algorithm_than_the_uploads__is_invalid_request(
    desk: Desk,
) -> None:
    upload = await Upload.begin(desk, ChecksumAlgorithm="SHA256")
    with refused(S3Code.INVALID_REQUEST):
        await upload.part(1, b"x", Algorithm.SHA1)


async def test_upload_part__torn_body__leaves_no_part(desk: Desk, upload: Upload) -> None:
    with refused(S3Code.BAD_DIGEST):
        await desk.ask("UploadPart", BytesBody(b"x", torn=True), PartNumber=1, **upload.address)
    assert "Parts" not in await desk.ask("ListParts", **upload.address)


# Parts copied from other objects


async def copied(desk: Desk, upload: Upload, number: int, **arguments: Any) -> dict[str, Any]:
    reply = await desk.ask(
        "UploadPartCopy",
        PartNumber=number,
        CopySource="shop/src",
        **upload.address,
        **arguments,
    )
    return {"PartNumber": number, "ETag": reply["CopyPartResult"]["ETag"]}


async def test_upload_part_copy__ranges__make_up_the_object(desk: Desk, upload: Upload) -> None:
    await desk.ask("PutObject", BytesBody(FULL + TAIL), Bucket="shop", Key="src")
    first = await copied(desk, upload, 1)
    last = await copied(desk, upload, 2, CopySourceRange=f"bytes={5 * MIB}-{5 * MIB + 1}")
    assert last["ETag"] == f'"{hashlib.md5(TAIL[:2]).hexdigest()}"'
    done = await upload.complete(first, last)
    assert await content(desk) == FULL + TAIL + TAIL[:2]
    assert done["ChecksumCRC64NVME"] == checksum(Algorithm.CRC64NVME, FULL + TAIL + TAIL[:2])


@pytest.mark.parametrize("text", ["bytes=0-4", "bytes=4-4"])
async def test_upload_part_copy__range_beyond_the_source__is_invalid_range(
    desk: Desk, upload: Upload, text: str
) -> None:
    await desk.ask("PutObject", BytesBody(TAIL), Bucket="shop", Key="src")
    with refused(S3Code.INVALID_RANGE):
        await copied(desk, upload, 1, CopySourceRange=text)


async def test_upload_part_copy__source_conditions_and_policy__are_held(
    desk: Desk, upload: Upload
) -> None:
    await desk.ask("PutObject", BytesBody(TAIL), Bucket="shop", Key="src")
    with refused(S3Code.PRECONDITION_FAILED):
        await copied(desk, upload, 1, CopySourceIfModifiedSince=datetime(2101, 1, 1, tzinfo=UTC))

    async def deny(operation: Operation) -> None:
        assert operation == GetObject("shop", "src")
        raise ClientError(S3Code.ACCESS_DENIED)

    desk.authorise = deny
    with refused(S3Code.ACCESS_DENIED):
        await copied(desk, upload, 1)


async def test_upload_part_copy__source_over_the_limit__is_entity_too_large(
    desk: Desk, upload: Upload
) -> None:
    await desk.ask("PutObject", BytesBody(TAIL), Bucket="shop", Key="src")
    desk.limits = HttpLimits(max_object_bytes=len(TAIL) - 1)
    with refused(S3Code.ENTITY_TOO_LARGE):
        await copied(desk, upload, 1)


# Lists


async def test_list_parts__pages__are_in_order_of_number(desk: Desk) -> None:
    upload = await Upload.begin(desk, ChecksumAlgorithm="CRC32", StorageClass="STANDARD_IA")
    for number in (10, 2, 7):
        await upload.part(number, b"%d" % number, Algorithm.CRC32)
    page = await desk.ask("ListParts", MaxParts=2, **upload.address)
    assert [part["PartNumber"] for part in page["Parts"]] == [2, 7]
    assert (page["IsTruncated"], page["NextPartNumberMarker"]) == (True, 7)
    assert (page["ChecksumAlgorithm"], page["StorageClass"]) == ("CRC32", "STANDARD_IA")
    rest = await desk.ask("ListParts", PartNumberMarker=7, **upload.address)
    (part,) = rest["Parts"]
    assert (part["PartNumber"], part["Size"], rest["IsTruncated"]) == (10, 2, False)
    assert part["ETag"] == f'"{hashlib.md5(b"10").hexdigest()}"'
    assert part["ChecksumCRC32"] == checksum(Algorithm.CRC32, b"10")


async def test_list_parts__finished_upload__is_no_such_upload(desk: Desk, upload: Upload) -> None:
    await upload.complete(await upload.part(1, b"x"))
    with refused(S3Code.NO_SUCH_UPLOAD):
        await desk.ask("ListParts", **upload.address)


async def test_list_uploads__pages_within_one_key__show_each_upload_once(desk: Desk) -> None:
    ids = []
    for key in ("a", "b", "b", "b", "c"):
        made = await desk.ask("CreateMultipartUpload", Bucket="shop", Key=key)
        ids.append((key, made["UploadId"]))
    seen: list[tuple[str, str]] = []
    markers: dict[str, str] = {}
    while True:
        page = await desk.ask("ListMultipartUploads", Bucket="shop", MaxUploads=2, **markers)
        seen += [(entry["Key"], entry["UploadId"]) for entry in page["Uploads"]]
        if not page["IsTruncated"]:
            break
        markers = {
            "KeyMarker": page["NextKeyMarker"],
            "UploadIdMarker": page["NextUploadIdMarker"],
        }
    assert sorted(seen) == sorted(ids)
    assert [key for key, _ in seen] == ["a", "b", "b", "b", "c"]


async def test_list_uploads__delimiter_and_encoding__roll_up_and_encode(desk: Desk) -> None:
    for key in ("dir a/1", "dir a/2", "é"):
        await desk.ask("CreateMultipartUpload", Bucket="shop", Key=key)
    page = await desk.ask("ListMultipartUploads", Bucket="shop", Delimiter="/", EncodingType="url")
    assert [entry["Prefix"] for entry in page["CommonPrefixes"]] == ["dir%20a/"]
    assert [entry["Key"] for entry in page["Uploads"]] == ["%C3%A9"]


async def test_list_uploads__upload_id_marker_alone__is_ignored(desk: Desk, upload: Upload) -> None:
    page = await desk.ask("ListMultipartUploads", Bucket="shop", UploadIdMarker="zzz")
    assert [entry["Key"] for entry in page["Uploads"]] == ["big"]
