"""What every storage promises of buckets and objects."""

import asyncio
import os

import pytest
from storing import MAX_STAGED, draft, etag, get, new_bucket, put, raises, stage

from gateway.errors import BusyError, ClientError, InternalError, S3Code
from gateway.storage.port import Deletion, ListQuery, ObjectAttributes, ObjectDraft, Storage
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import Conditions

ABSENT = Conditions(if_none_match=("*",))


# Buckets


async def test_create_bucket__again__refused(storage: Storage) -> None:
    with raises(S3Code.BUCKET_ALREADY_OWNED_BY_YOU):
        await storage.create_bucket(new_bucket("bucket"))


async def test_head_bucket__created__same_info(storage: Storage) -> None:
    made = await storage.create_bucket(new_bucket("other", "eu-west-1"))
    assert (made.name, made.region) == ("other", "eu-west-1")
    assert await storage.head_bucket("other") == made


async def test_head_bucket__missing__no_such_bucket(storage: Storage) -> None:
    with raises(S3Code.NO_SUCH_BUCKET):
        await storage.head_bucket("absent")


async def test_list_buckets__several__by_name(storage: Storage) -> None:
    for name in ("zebra", "alpha", "b.c", "b-c"):
        await storage.create_bucket(new_bucket(name))
    names = [info.name for info in await storage.list_buckets()]
    assert names == ["alpha", "b-c", "b.c", "bucket", "zebra"]


async def test_delete_bucket__empty_again__gone_and_reusable(storage: Storage) -> None:
    await put(storage, "key", b"data")
    with raises(S3Code.BUCKET_NOT_EMPTY):
        await storage.delete_bucket("bucket")
    await storage.delete_object("bucket", "key", None)
    await storage.delete_bucket("bucket")
    with raises(S3Code.NO_SUCH_BUCKET):
        await storage.delete_bucket("bucket")
    await storage.create_bucket(new_bucket("bucket"))
    assert (await storage.list_objects(ListQuery("bucket"))).objects == ()


async def test_delete_bucket__upload_in_progress__aborted_with_it(storage: Storage) -> None:
    upload = await storage.create_upload("bucket", "key", ObjectAttributes(), None, None)
    await storage.delete_bucket("bucket")
    await storage.create_bucket(new_bucket("bucket"))
    with raises(S3Code.NO_SUCH_UPLOAD):
        await storage.head_upload("bucket", "key", upload.upload_id)


async def test_every_method__bucket_missing__no_such_bucket(storage: Storage) -> None:
    attributes = ObjectAttributes()
    calls = (
        storage.open_object("absent", "k", None),
        storage.head_object("absent", "k", None),
        storage.stage("absent", 1),
        storage.delete_object("absent", "k", None),
        storage.list_objects(ListQuery("absent")),
        storage.create_upload("absent", "k", attributes, None, None),
        storage.head_upload("absent", "k", "u"),
        storage.list_parts("absent", "k", "u", 0, 10),
        storage.complete_upload("absent", "k", "u", (), ObjectDraft(0, "e")),
        storage.abort_upload("absent", "k", "u"),
        storage.list_uploads("absent", "", "", "", "", 10),
    )
    for call in calls:
        with raises(S3Code.NO_SUCH_BUCKET):
            await call


async def test_commit_object__bucket_deleted_while_staged__no_such_bucket(
    storage: Storage,
) -> None:
    staged = await stage(storage, b"data")
    await storage.delete_bucket("bucket")
    with raises(S3Code.NO_SUCH_BUCKET):
        await storage.commit_object(staged, "bucket", "key", draft(b"data"))


async def test_check__running__ready(storage: Storage) -> None:
    await storage.check()
    await storage.check()


# Objects


@pytest.mark.parametrize("size_bytes", [0, 1, 4096, 65_536, 65_537, 1_000_003])
async def test_put_get__any_size__same_bytes(storage: Storage, size_bytes: int) -> None:
    data = os.urandom(size_bytes)
    info = await put(storage, "key", data)
    assert (info.size_bytes, info.etag) == (size_bytes, etag(data))
    assert await get(storage, "key") == data
    assert await storage.head_object("bucket", "key", None) == info


async def test_commit_object__all_attributes__given_back_word_for_word(storage: Storage) -> None:
    attributes = ObjectAttributes(
        headers={"content-type": "text/plain; a=\u00e9", "expires": "never"},
        metadata={"a": "  two  spaces", "b": ""},
        tags=(("k", "v"), ("k2", "\U0001f600")),
        storage_class="GLACIER",
    )
    full = ObjectDraft(
        4,
        etag(b"data"),
        attributes,
        {Algorithm.CRC32: "rfPzYw==", Algorithm.CRC64NVME: "AAAAAAAAAAA="},
        ChecksumType.COMPOSITE,
    )
    info = await storage.commit_object(await stage(storage, b"data"), "bucket", "k", full)
    found = await storage.head_object("bucket", "k", None)
    assert found == info
    assert found.attributes == attributes
    assert (found.checksums, found.checksum_type) == (full.checksums, full.checksum_type)
    (listed,) = (await storage.list_objects(ListQuery("bucket"))).objects
    assert listed == info


AWKWARD_KEYS = [
    "a",
    "a/b",
    "a/",
    "a//b",
    "/a",
    "..",
    "../..",
    "./a",
    "a\0b",
    "\x01\x1f\x7f",
    " ",
    "+",
    "%2F",
    "\ufffd\uffff",
    "\U0001f600",
    "x" * 1024,
    "/" * 1024,
    "\u00e9" * 512,
]


@pytest.mark.needs("any_key")
async def test_any_key__each_is_its_own_object(storage: Storage) -> None:
    for key in AWKWARD_KEYS:
        await put(storage, key, key.encode())
    for key in AWKWARD_KEYS:
        assert await get(storage, key) == key.encode()
    listed = (await storage.list_objects(ListQuery("bucket"))).objects
    assert [info.key for info in listed] == sorted(AWKWARD_KEYS, key=str.encode)


async def test_open_object__missing__no_such_key(storage: Storage) -> None:
    with raises(S3Code.NO_SUCH_KEY):
        await storage.open_object("bucket", "absent", None)
    with raises(S3Code.NO_SUCH_VERSION):
        await storage.head_object("bucket", "absent", "null")


async def test_version_id__null_or_other__current_or_no_such_version(storage: Storage) -> None:
    info = await put(storage, "key", b"data")
    assert info.version_id == "null"
    assert await storage.head_object("bucket", "key", "null") == info
    with raises(S3Code.NO_SUCH_VERSION):
        await storage.head_object("bucket", "key", "3HL4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY")
    with raises(S3Code.NO_SUCH_VERSION):
        await storage.open_object("bucket", "key", "other")
    assert await storage.delete_object("bucket", "key", "other") == Deletion(existed=False)
    assert await storage.delete_object("bucket", "key", "null") == Deletion(existed=True)


async def test_commit_object__replacement__newer_time_and_content(storage: Storage) -> None:
    first = await put(storage, "key", b"first")
    second = await put(storage, "key", b"second!")
    assert second.modified_ns > first.modified_ns
    assert await get(storage, "key") == b"second!"
    assert len((await storage.list_objects(ListQuery("bucket"))).objects) == 1


async def test_delete_object__twice__true_then_false(storage: Storage) -> None:
    await put(storage, "key", b"data")
    assert await storage.delete_object("bucket", "key", None) == Deletion(existed=True)
    assert await storage.delete_object("bucket", "key", None) == Deletion(existed=False)
    with raises(S3Code.NO_SUCH_KEY):
        await storage.head_object("bucket", "key", None)


# Reading


async def test_reader__replaced_and_deleted__reads_what_it_opened(storage: Storage) -> None:
    data = os.urandom(300_000)
    await put(storage, "key", data)
    reader = await storage.open_object("bucket", "key", None)
    await put(storage, "key", b"other")
    await storage.delete_object("bucket", "key", None)
    assert await reader.read(0, len(data)) == data
    extents = reader.extents(0, len(data))
    assert extents is not None
    assert b"".join(os.pread(e.fd, e.length_bytes, e.offset_bytes) for e in extents) == data
    await reader.close()
    await reader.close()


async def test_reader__ranges__exact_bytes(storage: Storage) -> None:
    data = os.urandom(200_000)
    await put(storage, "key", data)
    reader = await storage.open_object("bucket", "key", None)
    for offset, length in ((0, 0), (0, 1), (7, 100_000), (199_999, 1), (200_000, 0)):
        assert await reader.read(offset, length) == data[offset : offset + length]
        extents = reader.extents(offset, length)
        assert extents is not None
        assert sum(extent.length_bytes for extent in extents) == length
        assert all(extent.length_bytes > 0 for extent in extents)
    for offset, length in ((0, 200_001), (200_001, 0), (-1, 1), (0, -1)):
        with pytest.raises(ValueError, match="leave an object"):
            reader.extents(offset, length)
        with pytest.raises(ValueError, match="leave an object"):
            await reader.read(offset, length)
    await reader.close()


# Staging


async def test_staged__written_through_fileno__same_as_write(storage: Storage) -> None:
    data = os.urandom(100_000)
    staged = await storage.stage("bucket", None)
    fd = staged.fileno()
    assert fd is not None
    assert os.pwrite(fd, data, 0) == len(data)
    staged.written(len(data))
    await staged.write(memoryview(b"and more"))
    await staged.write(bytearray(b"!"))
    expected = data + b"and more!"
    await storage.commit_object(staged, "bucket", "key", draft(expected))
    assert await get(storage, "key") == expected


async def test_staged__write_then_fileno__continues_at_the_end(storage: Storage) -> None:
    staged = await storage.stage("bucket", None)  # few bytes may need no descriptor
    await staged.write(b"head")
    fd = staged.fileno()
    assert fd is not None
    os.pwrite(fd, b"tail", 4)
    staged.written(4)
    await storage.commit_object(staged, "bucket", "key", draft(b"headtail"))
    assert await get(storage, "key") == b"headtail"


async def test_staged__shorter_than_its_hint__only_what_was_written(storage: Storage) -> None:
    staged = await storage.stage("bucket", 1_000_000)
    await staged.write(b"short")
    info = await storage.commit_object(staged, "bucket", "key", draft(b"short"))
    assert info.size_bytes == 5
    assert await get(storage, "key") == b"short"


async def test_staged__discarded__invisible_and_not_usable(storage: Storage) -> None:
    staged = await stage(storage, b"data")
    await staged.discard()
    await staged.discard()
    with pytest.raises(InternalError):
        staged.fileno()
    with pytest.raises(InternalError):
        await staged.write(b"more")
    with raises(S3Code.NO_SUCH_KEY):
        await storage.head_object("bucket", "key", None)


async def test_staged__committed__consumed(storage: Storage) -> None:
    staged = await stage(storage, b"data")
    await storage.commit_object(staged, "bucket", "key", draft(b"data"))
    await staged.discard()
    with pytest.raises(InternalError):
        await storage.commit_object(staged, "bucket", "other", draft(b"data"))
    assert await get(storage, "key") == b"data"


async def test_commit_object__length_differs__refused_and_consumed(storage: Storage) -> None:
    staged = await stage(storage, b"data")
    with pytest.raises(InternalError):
        await storage.commit_object(staged, "bucket", "key", ObjectDraft(5, "e"))
    with pytest.raises(InternalError):
        staged.fileno()
    with raises(S3Code.NO_SUCH_KEY):
        await storage.head_object("bucket", "key", None)


async def test_commit_object__staged_elsewhere__type_error(storage: Storage) -> None:
    class Foreign:
        def fileno(self) -> None:
            return None

        def written(self, length_bytes: int) -> None: ...

        async def write(self, data: bytes | bytearray | memoryview) -> None: ...

        async def discard(self) -> None: ...

    with pytest.raises(TypeError, match="Foreign"):
        await storage.commit_object(Foreign(), "bucket", "key", ObjectDraft(0, "e"))


async def test_stage__all_places_taken__busy_until_one_is_free(storage: Storage) -> None:
    taken = [await storage.stage("bucket", None) for _ in range(MAX_STAGED)]
    with pytest.raises(BusyError, match="max_staged"):
        await storage.stage("bucket", None)
    await taken.pop().discard()
    staged = await storage.stage("bucket", None)
    await storage.commit_object(staged, "bucket", "key", ObjectDraft(0, "e"))
    taken.append(await storage.stage("bucket", None))
    for each in taken:
        await each.discard()


async def test_stage__refused_often__takes_no_place(storage: Storage) -> None:
    for _ in range(200):
        with raises(S3Code.NO_SUCH_BUCKET):
            await storage.stage("absent", None)
    await (await storage.stage("bucket", None)).discard()


# Write conditions


@pytest.mark.parametrize(
    ("current", "conditions", "code"),
    [
        (None, Conditions(if_none_match=("*",)), None),
        (b"x", Conditions(if_none_match=("*",)), S3Code.PRECONDITION_FAILED),
        (None, Conditions(if_match=("*",)), S3Code.NO_SUCH_KEY),
        (None, Conditions(if_match=(etag(b"x"),)), S3Code.NO_SUCH_KEY),
        (b"x", Conditions(if_match=("*",)), None),
        (b"x", Conditions(if_match=(etag(b"x"),)), None),
        (b"x", Conditions(if_match=("other", etag(b"x"))), None),
        (b"x", Conditions(if_match=(etag(b"y"),)), S3Code.PRECONDITION_FAILED),
    ],
)
async def test_write_conditions__put_and_delete__judged_against_the_current_object(
    storage: Storage, current: bytes | None, conditions: Conditions, code: S3Code | None
) -> None:
    if current is not None:
        await put(storage, "put", current)
        await put(storage, "delete", current)
    if code is None:
        await put(storage, "put", b"new", conditions=conditions)
        assert await get(storage, "put") == b"new"
        deletion = await storage.delete_object("bucket", "delete", None, conditions)
        assert deletion.existed == (current is not None)
        return
    with raises(code):
        await put(storage, "put", b"new", conditions=conditions)
    if current is None:  # there is nothing that a delete would have to be kept from
        assert not (await storage.delete_object("bucket", "delete", None, conditions)).existed
        return
    with raises(code):
        await storage.delete_object("bucket", "delete", None, conditions)
    assert await get(storage, "put") == current
    assert await get(storage, "delete") == current


async def test_if_none_match__32_at_once__exactly_one_wins(storage: Storage) -> None:
    bodies = [b"body %d" % number for number in range(32)]
    outcomes = await asyncio.gather(
        *(put(storage, "lock", body, conditions=ABSENT) for body in bodies),
        return_exceptions=True,
    )
    won = [body for body, outcome in zip(bodies, outcomes, strict=True) if not _lost(outcome)]
    assert len(won) == 1
    assert await get(storage, "lock") == won[0]


async def test_if_match__32_at_once__exactly_one_wins(storage: Storage) -> None:
    before = await put(storage, "counter", b"0")
    same = Conditions(if_match=(before.etag,))
    outcomes = await asyncio.gather(
        *(put(storage, "counter", b"%d" % n, conditions=same) for n in range(1, 33)),
        return_exceptions=True,
    )
    assert sum(not _lost(outcome) for outcome in outcomes) == 1


def _lost(outcome: object) -> bool:
    if isinstance(outcome, ClientError):
        assert outcome.code is S3Code.PRECONDITION_FAILED
        return True
    assert not isinstance(outcome, BaseException)
    return False


async def test_concurrent_puts__one_key__last_acknowledged_content_is_whole(
    storage: Storage,
) -> None:
    bodies = [os.urandom(1) * 150_000 for _ in range(16)]
    await asyncio.gather(*(put(storage, "key", body) for body in bodies))
    info = await storage.head_object("bucket", "key", None)
    data = await get(storage, "key")
    assert data in bodies
    assert etag(data) == info.etag
