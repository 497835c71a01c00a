"""What every storage promises of multipart uploads."""

import asyncio
import os
from dataclasses import replace

import pytest
from storing import complete, draft, etag, get, initiate, put, put_part, raises, stage, whole

from gateway.errors import InternalError, S3Code
from gateway.storage.port import ListQuery, ObjectAttributes, ObjectDraft, Storage
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import Conditions

PLAIN = ObjectAttributes(headers={"content-type": "video/mp4"}, metadata={"a": "b"})


async def test_create_upload__all_fields__given_back(storage: Storage) -> None:
    info = await storage.create_upload(
        "bucket", "k", PLAIN, Algorithm.CRC32C, ChecksumType.COMPOSITE
    )
    assert (info.bucket, info.key, info.attributes) == ("bucket", "k", PLAIN)
    assert (info.checksum_algorithm, info.checksum_type) == (
        Algorithm.CRC32C,
        ChecksumType.COMPOSITE,
    )
    assert await storage.head_upload("bucket", "k", info.upload_id) == info
    (listed,) = (await storage.list_uploads("bucket", "", "", "", "", 10)).uploads
    assert listed == info


async def test_head_upload__unknown_or_of_another_key__no_such_upload(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    for key, wanted in (("k", "unknown"), ("other", upload_id), ("k", "")):
        with raises(S3Code.NO_SUCH_UPLOAD):
            await storage.head_upload("bucket", key, wanted)


async def test_complete_upload__three_parts__one_object_across_their_borders(
    storage: Storage,
) -> None:
    bodies = [os.urandom(70_000), b"", os.urandom(1), os.urandom(50_000)]
    upload_id = await initiate(storage, "k")
    parts = [await put_part(storage, "k", upload_id, n, body) for n, body in enumerate(bodies, 1)]
    with raises(S3Code.NO_SUCH_KEY):
        await storage.head_object("bucket", "k", None)
    info = await complete(storage, "k", upload_id, parts)
    data = b"".join(bodies)
    assert info.parts == tuple(parts)
    assert info.size_bytes == len(data)
    assert await storage.head_object("bucket", "k", None) == info
    reader = await storage.open_object("bucket", "k", None)
    assert reader.info == info
    for offset, length in ((0, len(data)), (69_999, 3), (70_000, 1), (70_001, 5), (5, 0)):
        expected = data[offset : offset + length]
        assert await reader.read(offset, length) == expected
        extents = reader.extents(offset, length)
        assert extents is not None
        assert all(extent.length_bytes > 0 for extent in extents)
        read = b"".join(os.pread(e.fd, e.length_bytes, e.offset_bytes) for e in extents)
        assert read == expected
    await reader.close()


async def test_list_objects__multipart_object__without_its_parts(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    info = await complete(
        storage, "k", upload_id, [await put_part(storage, "k", upload_id, 1, b"x")]
    )
    (listed,) = (await storage.list_objects(ListQuery("bucket"))).objects
    assert listed == replace(info, parts=())


async def test_complete_upload__draft__attributes_and_checksums_kept(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    part = await put_part(storage, "k", upload_id, 7, b"part")
    full = ObjectDraft(4, "etag-1", PLAIN, {Algorithm.SHA256: "YQ==-1"}, ChecksumType.COMPOSITE)
    info = await storage.complete_upload("bucket", "k", upload_id, [part], full)
    assert (info.etag, info.attributes) == ("etag-1", PLAIN)
    assert (info.checksums, info.checksum_type) == (full.checksums, full.checksum_type)


async def test_reader__multipart_object_replaced__reads_what_it_opened(storage: Storage) -> None:
    bodies = [os.urandom(100_000), os.urandom(100_000)]
    upload_id = await initiate(storage, "k")
    parts = [await put_part(storage, "k", upload_id, n, body) for n, body in enumerate(bodies, 1)]
    await complete(storage, "k", upload_id, parts)
    reader = await storage.open_object("bucket", "k", None)
    await put(storage, "k", b"replacement")
    await storage.delete_object("bucket", "k", None)
    assert await reader.read(0, 200_000) == b"".join(bodies)
    (extent,) = (await _extents(reader, 100_000, 100_000))[-1:]
    assert extent == bodies[1]
    await reader.close()


async def _extents(reader: object, offset: int, length: int) -> list[bytes]:
    found = reader.extents(offset, length)  # type: ignore[attr-defined]
    return [os.pread(e.fd, e.length_bytes, e.offset_bytes) for e in found]


async def test_commit_part__same_number_again__replaces(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    old = await put_part(storage, "k", upload_id, 1, b"old")
    new = await put_part(storage, "k", upload_id, 1, b"newer")
    assert await storage.list_parts("bucket", "k", upload_id, 0, 10) == ((new,), False)
    with raises(S3Code.INVALID_PART):
        await complete(storage, "k", upload_id, [old])
    await complete(storage, "k", upload_id, [new])
    assert await get(storage, "k") == b"newer"


async def test_commit_part__checksums__kept(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    full = ObjectDraft(4, etag(b"part"), checksums={Algorithm.CRC32: "rfPzYw=="})
    part = await storage.commit_part(
        await stage(storage, b"part"), "bucket", "k", upload_id, 3, full
    )
    assert (part.number, part.size_bytes, part.etag) == (3, 4, etag(b"part"))
    assert part.checksums == {Algorithm.CRC32: "rfPzYw=="}
    assert await storage.list_parts("bucket", "k", upload_id, 0, 10) == ((part,), False)


async def test_commit_part__upload_ended_while_staged__no_such_upload(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    for ending in ("abort", "complete"):
        upload_id = await initiate(storage, "k")
        part = await put_part(storage, "k", upload_id, 1, b"1")
        staged = await stage(storage, b"late")
        if ending == "abort":
            await storage.abort_upload("bucket", "k", upload_id)
        else:
            await complete(storage, "k", upload_id, [part])
        with raises(S3Code.NO_SUCH_UPLOAD):
            await storage.commit_part(staged, "bucket", "k", upload_id, 2, draft(b"late"))
    assert await get(storage, "k") == b"1"


async def test_list_parts__pages__in_order_of_number(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    numbers = (10_000, 2, 7, 1)
    made = {n: await put_part(storage, "k", upload_id, n, b"%d" % n) for n in numbers}
    ordered = tuple(made[number] for number in sorted(made))
    listing = storage.list_parts
    assert await listing("bucket", "k", upload_id, 0, 1000) == (ordered, False)
    assert await listing("bucket", "k", upload_id, 0, 3) == (ordered[:3], True)
    assert await listing("bucket", "k", upload_id, 7, 1) == (ordered[3:], False)
    assert await listing("bucket", "k", upload_id, 0, 0) == ((), False)
    assert await listing("bucket", "k", upload_id, 10_000, 5) == ((), False)


async def test_complete_upload__unlisted_parts__dropped(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    parts = [await put_part(storage, "k", upload_id, n, b"%d" % n) for n in (1, 2, 3)]
    info = await complete(storage, "k", upload_id, [parts[0], parts[2]])
    assert [part.number for part in info.parts] == [1, 3]
    assert await get(storage, "k") == b"13"


async def test_complete_upload__bad_lists__refused_and_still_active(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    one = await put_part(storage, "k", upload_id, 1, b"1")
    two = await put_part(storage, "k", upload_id, 2, b"2")
    for listed, code in (
        ([two, one], S3Code.INVALID_PART_ORDER),
        ([one, one], S3Code.INVALID_PART_ORDER),
        ([one, replace(two, number=3)], S3Code.INVALID_PART),
        ([one, replace(two, etag="other")], S3Code.INVALID_PART),
    ):
        with raises(code):
            await complete(storage, "k", upload_id, listed)
    with pytest.raises(InternalError):
        await storage.complete_upload("bucket", "k", upload_id, [one], ObjectDraft(9, "e"))
    await complete(storage, "k", upload_id, [one, two])
    assert await get(storage, "k") == b"12"


async def test_complete_upload__identical_again__same_result(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    parts = [await put_part(storage, "k", upload_id, n, b"%d" % n) for n in (1, 2)]
    assert await storage.completed_upload("bucket", "k", upload_id) is None
    info = await complete(storage, "k", upload_id, parts, Conditions(if_none_match=("*",)))
    assert await complete(storage, "k", upload_id, parts, Conditions(if_none_match=("*",))) == info
    await put(storage, "k", b"newer")
    assert await complete(storage, "k", upload_id, parts) == info
    assert await storage.completed_upload("bucket", "k", upload_id) == info
    assert await get(storage, "k") == b"newer"
    with raises(S3Code.NO_SUCH_UPLOAD):
        await complete(storage, "k", upload_id, parts[:1])
    assert await storage.completed_upload("bucket", "other", upload_id) is None
    assert await storage.completed_upload("absent", "k", upload_id) is None


async def test_complete_upload__identical_at_once__same_result(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    parts = [await put_part(storage, "k", upload_id, 1, b"1")]
    results = await asyncio.gather(*(complete(storage, "k", upload_id, parts) for _ in range(8)))
    assert all(result == results[0] for result in results)


async def test_complete_upload__conditions__judged_at_publish(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    parts = [await put_part(storage, "k", upload_id, 1, b"1")]
    with raises(S3Code.NO_SUCH_KEY):
        await complete(storage, "k", upload_id, parts, Conditions(if_match=("x",)))
    await put(storage, "k", b"meanwhile")
    with raises(S3Code.PRECONDITION_FAILED):
        await complete(storage, "k", upload_id, parts, Conditions(if_none_match=("*",)))
    assert await get(storage, "k") == b"meanwhile"
    await complete(storage, "k", upload_id, parts, Conditions(if_match=(etag(b"meanwhile"),)))
    assert await get(storage, "k") == b"1"


async def test_complete_and_abort__at_once__one_of_them_wins(storage: Storage) -> None:
    for number in range(8):
        key = f"k{number}"
        upload_id = await initiate(storage, key)
        parts = [await put_part(storage, key, upload_id, 1, b"1")]
        outcomes = await asyncio.gather(
            complete(storage, key, upload_id, parts),
            storage.abort_upload("bucket", key, upload_id),
            return_exceptions=True,
        )
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert len(failed) == 1
        if failed[0] is outcomes[1]:
            assert await get(storage, key) == b"1"
        else:
            with raises(S3Code.NO_SUCH_KEY):
                await storage.head_object("bucket", key, None)


async def test_abort_upload__late_or_twice__no_such_upload_and_no_harm(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    parts = [await put_part(storage, "k", upload_id, 1, b"1")]
    await complete(storage, "k", upload_id, parts)
    with raises(S3Code.NO_SUCH_UPLOAD):
        await storage.abort_upload("bucket", "k", upload_id)
    assert await get(storage, "k") == b"1"
    other = await initiate(storage, "k")
    await put_part(storage, "k", other, 1, b"2")
    await storage.abort_upload("bucket", "k", other)
    with raises(S3Code.NO_SUCH_UPLOAD):
        await storage.abort_upload("bucket", "k", other)
    with raises(S3Code.NO_SUCH_UPLOAD):
        await storage.list_parts("bucket", "k", other, 0, 10)
    assert await get(storage, "k") == b"1"


async def test_two_uploads__one_key__last_complete_wins(storage: Storage) -> None:
    first, second = await initiate(storage, "k"), await initiate(storage, "k")
    one = await put_part(storage, "k", first, 1, b"first")
    two = await put_part(storage, "k", second, 1, b"second")
    await complete(storage, "k", second, [two])
    assert await get(storage, "k") == b"second"
    await complete(storage, "k", first, [one])
    assert await get(storage, "k") == b"first"


async def test_complete_upload__many_parts__whole(storage: Storage) -> None:
    upload_id = await initiate(storage, "k")
    parts = []
    for first in range(1, 301, 32):
        batch = range(first, min(first + 32, 301))
        parts += await asyncio.gather(
            *(put_part(storage, "k", upload_id, n, b"%05d" % n) for n in batch)
        )
    info = await storage.complete_upload("bucket", "k", upload_id, parts, whole(parts))
    assert len(info.parts) == 300
    assert await get(storage, "k") == b"".join(b"%05d" % n for n in range(1, 301))


async def test_complete_upload__10000_parts__one_object_readable_anywhere(
    storage: Storage,
) -> None:
    """The largest upload there is; parts of 5 bytes, which only the verb would refuse."""
    upload_id = await initiate(storage, "k")
    made = []
    for first in range(1, 10_001, 50):
        batch = range(first, first + 50)
        made += await asyncio.gather(
            *(put_part(storage, "k", upload_id, n, b"%05d" % n) for n in batch)
        )
    parts, more, after = [], True, 0
    while more:
        page, more = await storage.list_parts("bucket", "k", upload_id, after, 1000)
        parts += page
        after = page[-1].number
    assert parts == made
    info = await complete(storage, "k", upload_id, parts)
    assert (len(info.parts), info.size_bytes) == (10_000, 50_000)
    reader = await storage.open_object("bucket", "k", None)
    data = b"".join(b"%05d" % n for n in range(1, 10_001))
    assert await reader.read(0, 50_000) == data
    assert await reader.read(49_993, 7) == data[-7:]
    await reader.close()
    await storage.delete_object("bucket", "k", None)
