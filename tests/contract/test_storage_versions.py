"""What every storage promises of versions, delete markers, and what changes of an object."""

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from storing import complete, etag, get, initiate, new_bucket, put, put_part, raises

from gateway.errors import ClientError, S3Code
from gateway.storage.port import (
    BucketInfo,
    Deletion,
    ListQuery,
    ObjectAttributes,
    ObjectInfo,
    Retention,
    RetentionMode,
    Storage,
    Versioning,
    VersionQuery,
)
from gateway.wire.conditional import Conditions
from gateway.wire.grants import Grant, Group, Permission

ABSENT = Conditions(if_none_match=("*",))
LOCKED = ObjectAttributes(
    tags=(("a", "b"),),
    grants=(
        Grant("1" * 64, Permission.READ_ACP),
        Grant(Group.ALL_USERS, Permission.READ),
    ),
    retention=Retention(RetentionMode.COMPLIANCE, 1_800_000_000_000_000_000),
    legal_hold=True,
)


async def switch(storage: Storage, state: Versioning, bucket: str = "bucket") -> None:
    await storage.update_bucket(bucket, lambda info: replace(info, versioning=state))


async def versions(storage: Storage, key: str = "") -> Sequence[ObjectInfo]:
    """All that one page of a thousand shows of a key, or of the bucket."""
    return (await storage.list_versions(VersionQuery("bucket", prefix=key))).versions


async def visible_keys(storage: Storage) -> list[str]:
    return [info.key for info in (await storage.list_objects(ListQuery("bucket"))).objects]


async def read(storage: Storage, key: str, version_id: str | None) -> bytes:
    reader = await storage.open_object("bucket", key, version_id)
    data = await reader.read(0, reader.info.size_bytes)
    await reader.close()
    return data


# Buckets


@pytest.mark.needs("versioning")
async def test_create_bucket__everything_configured__given_back(storage: Storage) -> None:
    wanted = BucketInfo(
        "full",
        0,
        "eu-west-1",
        owner="a" * 64,
        versioning=Versioning.ENABLED,
        object_lock=True,
        grants=LOCKED.grants,
        settings={"policy": '{"a": "\u00e9"}', "cors": "<x/>"},
    )
    made = await storage.create_bucket(wanted)
    assert made == replace(wanted, created_ns=made.created_ns)
    assert made.created_ns > 0
    assert await storage.head_bucket("full") == made
    assert made in await storage.list_buckets()


async def test_create_bucket__somebody_elses__already_exists(storage: Storage) -> None:
    await storage.create_bucket(new_bucket("theirs", owner="a" * 64))
    with raises(S3Code.BUCKET_ALREADY_EXISTS):
        await storage.create_bucket(new_bucket("theirs", owner="b" * 64))
    with raises(S3Code.BUCKET_ALREADY_OWNED_BY_YOU):
        await storage.create_bucket(new_bucket("theirs", owner="a" * 64))


@pytest.mark.needs("versioning")
async def test_update_bucket__change__kept_but_for_what_a_bucket_is(storage: Storage) -> None:
    before = await storage.head_bucket("bucket")

    def change(info: BucketInfo) -> BucketInfo:
        assert info == before
        return BucketInfo("other", 7, "moon", "thief", Versioning.SUSPENDED, True, LOCKED.grants)

    after = await storage.update_bucket("bucket", change)
    assert after == replace(
        before, versioning=Versioning.SUSPENDED, object_lock=True, grants=LOCKED.grants
    )
    assert await storage.head_bucket("bucket") == after


async def test_update_bucket__change_raises__nothing_changed(storage: Storage) -> None:
    before = await storage.head_bucket("bucket")

    def refuse(_: BucketInfo) -> BucketInfo:
        raise ClientError(S3Code.ACCESS_DENIED)

    with raises(S3Code.ACCESS_DENIED):
        await storage.update_bucket("bucket", refuse)
    assert await storage.head_bucket("bucket") == before


async def test_update_bucket__many_at_once__none_is_lost(storage: Storage) -> None:
    def add(number: int) -> Callable[[BucketInfo], BucketInfo]:
        return lambda info: replace(info, settings={**info.settings, str(number): "x"})

    await asyncio.gather(*(storage.update_bucket("bucket", add(n)) for n in range(40)))
    assert len((await storage.head_bucket("bucket")).settings) == 40


async def test_missing_bucket__what_versions_add__no_such_bucket(storage: Storage) -> None:
    for call in (
        storage.update_bucket("absent", lambda info: info),
        storage.update_object("absent", "k", None, lambda info: info.attributes),
        storage.list_versions(VersionQuery("absent")),
        storage.delete_object("absent", "k", "v"),
    ):
        with raises(S3Code.NO_SUCH_BUCKET):
            await call


# Versions


@pytest.mark.needs("versioning")
async def test_put__enabled__every_version_stays_readable(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    made = [await put(storage, "k", b"%d" % number) for number in range(5)]
    ids = [info.version_id for info in made]
    assert len({*ids, "null"}) == 6
    assert all(len(one) >= 20 for one in ids)
    for number, info in enumerate(made):
        assert await read(storage, "k", info.version_id) == b"%d" % number
        latest = number == 4
        assert await storage.head_object("bucket", "k", info.version_id) == replace(
            info, latest=latest
        )
    assert await get(storage, "k") == b"4"
    listed = await versions(storage)
    assert [info.version_id for info in listed] == ids[::-1]
    assert [info.latest for info in listed] == [True, False, False, False, False]
    assert await visible_keys(storage) == ["k"]


@pytest.mark.needs("versioning")
async def test_put__before_and_after_enabling__the_null_version_stays(storage: Storage) -> None:
    await put(storage, "k", b"old")
    await switch(storage, Versioning.ENABLED)
    new = await put(storage, "k", b"new")
    assert await read(storage, "k", "null") == b"old"
    assert [info.version_id for info in await versions(storage)] == [new.version_id, "null"]


@pytest.mark.needs("versioning")
async def test_put__suspended__replaces_the_null_version_wherever_it_is(storage: Storage) -> None:
    await put(storage, "k", b"first null")
    await switch(storage, Versioning.ENABLED)
    middle = await put(storage, "k", b"middle")
    await switch(storage, Versioning.SUSPENDED)
    for body in (b"second null", b"third null"):
        info = await put(storage, "k", body)
        assert info.version_id == "null"
        assert await read(storage, "k", "null") == body == await get(storage, "k")
        listed = await versions(storage)
        assert [one.version_id for one in listed] == ["null", middle.version_id]
        assert [one.latest for one in listed] == [True, False]
    assert await read(storage, "k", middle.version_id) == b"middle"


@pytest.mark.needs("versioning")
async def test_complete_upload__enabled__a_new_version_with_its_parts(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    old = await put(storage, "k", b"old")
    upload_id = await initiate(storage, "k")
    parts = [await put_part(storage, "k", upload_id, n, b"%d" % n) for n in (1, 2)]
    info = await complete(storage, "k", upload_id, parts)
    assert await complete(storage, "k", upload_id, parts) == info
    await put(storage, "k", b"newest")
    assert await read(storage, "k", info.version_id) == b"12"
    found = await storage.head_object("bucket", "k", info.version_id)
    assert found == replace(info, latest=False)
    assert found.parts == tuple(parts)
    assert await read(storage, "k", old.version_id) == b"old"


@pytest.mark.needs("versioning")
async def test_reader__version_removed_while_open__reads_to_the_end(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    data = os.urandom(200_000)
    info = await put(storage, "k", data)
    await put(storage, "k", b"newer")
    reader = await storage.open_object("bucket", "k", info.version_id)
    await storage.delete_object("bucket", "k", info.version_id)
    assert await reader.read(0, len(data)) == data
    await reader.close()


# Delete markers


@pytest.mark.needs("versioning")
async def test_delete__enabled__a_marker_hides_the_versions(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    info = await put(storage, "k", b"data")
    deletion = await storage.delete_object("bucket", "k", None, owner="o" * 64)
    assert deletion == Deletion(True, deletion.version_id, delete_marker=True)
    with raises(S3Code.NO_SUCH_KEY) as caught:
        await storage.head_object("bucket", "k", None)
    assert caught.value.headers["x-amz-delete-marker"] == "true"
    assert caught.value.headers["x-amz-version-id"] == deletion.version_id
    with raises(S3Code.METHOD_NOT_ALLOWED) as caught:
        await storage.open_object("bucket", "k", deletion.version_id)
    assert caught.value.headers["x-amz-delete-marker"] == "true"
    assert caught.value.headers["Allow"] == "DELETE"
    assert await read(storage, "k", info.version_id) == b"data"
    marker, old = await versions(storage)
    assert (marker.delete_marker, marker.latest, marker.owner) == (True, True, "o" * 64)
    assert (marker.version_id, marker.size_bytes, marker.etag) == (deletion.version_id, 0, "")
    assert (old.delete_marker, old.latest) == (False, False)
    assert await visible_keys(storage) == []


@pytest.mark.needs("versioning")
async def test_delete__enabled_and_nothing_there__a_marker_all_the_same(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    first = await storage.delete_object("bucket", "k", None)
    second = await storage.delete_object("bucket", "k", None)
    assert (first.existed, second.existed) == (False, False)
    listed = await versions(storage)
    assert [info.version_id for info in listed] == [second.version_id, first.version_id]
    assert [info.latest for info in listed] == [True, False]


@pytest.mark.needs("versioning")
async def test_delete__suspended__a_null_marker_replaces_the_null_version(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    kept = await put(storage, "k", b"kept")
    await switch(storage, Versioning.SUSPENDED)
    await put(storage, "k", b"null")
    for _ in range(2):
        deletion = await storage.delete_object("bucket", "k", None)
        assert (deletion.version_id, deletion.delete_marker) == ("null", True)
        listed = await versions(storage)
        assert [info.version_id for info in listed] == ["null", kept.version_id]
        assert listed[0].delete_marker
    await put(storage, "k", b"again")
    listed = await versions(storage)
    assert [info.delete_marker for info in listed] == [False, False]
    assert await get(storage, "k") == b"again"


@pytest.mark.needs("versioning")
async def test_delete_version__the_marker__the_object_is_back(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    info = await put(storage, "k", b"data")
    marker_id = (await storage.delete_object("bucket", "k", None)).version_id
    deletion = await storage.delete_object("bucket", "k", marker_id)
    assert deletion == Deletion(True, marker_id, delete_marker=True)
    assert await storage.head_object("bucket", "k", None) == info
    assert await visible_keys(storage) == ["k"]


@pytest.mark.needs("versioning")
async def test_delete_version__the_latest__the_next_one_comes_forward(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    made = [await put(storage, "k", b"%d" % number) for number in range(3)]
    marker_id = (await storage.delete_object("bucket", "k", None)).version_id
    newest = await put(storage, "k", b"newest")
    deletion = await storage.delete_object("bucket", "k", newest.version_id)
    assert deletion == Deletion(True, newest.version_id)
    with raises(S3Code.NO_SUCH_KEY):  # the marker is the latest again
        await get(storage, "k")
    await storage.delete_object("bucket", "k", made[1].version_id)  # from the middle
    await storage.delete_object("bucket", "k", marker_id)
    assert await get(storage, "k") == b"2"
    await storage.delete_object("bucket", "k", made[2].version_id)
    assert await get(storage, "k") == b"0"
    await storage.delete_object("bucket", "k", made[0].version_id)
    with raises(S3Code.NO_SUCH_KEY) as caught:
        await get(storage, "k")
    assert caught.value.headers["x-amz-delete-marker"] == "false"
    assert await versions(storage) == ()


@pytest.mark.needs("versioning")
async def test_delete_version__unknown__no_error_and_no_marker(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    await put(storage, "k", b"data")
    for key, version_id in (("k", "null"), ("k", "unknown"), ("absent", "unknown")):
        deletion = await storage.delete_object("bucket", key, version_id)
        assert deletion == Deletion(existed=False)
        with raises(S3Code.NO_SUCH_VERSION):
            await storage.head_object("bucket", key, version_id)
    assert len(await versions(storage)) == 1


@pytest.mark.needs("versioning")
async def test_delete_bucket__versions_or_markers_left__not_empty(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    info = await put(storage, "k", b"data")
    marker_id = (await storage.delete_object("bucket", "k", None)).version_id
    for version_id in (info.version_id, marker_id):
        with raises(S3Code.BUCKET_NOT_EMPTY):
            await storage.delete_bucket("bucket")
        await storage.delete_object("bucket", "k", version_id)
    await storage.delete_bucket("bucket")


# Conditions


@pytest.mark.needs("versioning")
async def test_conditions__latest_is_a_marker__a_put_finds_nothing(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    await put(storage, "k", b"data")
    await storage.delete_object("bucket", "k", None)
    for conditions in (Conditions(if_match=("*",)), Conditions(if_match=(etag(b"data"),))):
        with raises(S3Code.NO_SUCH_KEY):
            await put(storage, "k", b"new", conditions=conditions)
    await put(storage, "k", b"new", conditions=ABSENT)
    with raises(S3Code.PRECONDITION_FAILED):
        await put(storage, "k", b"newer", conditions=ABSENT)
    assert len(await versions(storage)) == 3


@pytest.mark.needs("versioning")
async def test_conditions__latest_is_a_marker__a_delete_is_held_against_it(
    storage: Storage,
) -> None:
    await switch(storage, Versioning.ENABLED)
    info = await put(storage, "k", b"data")
    await storage.delete_object("bucket", "k", None)
    for failing in (
        Conditions(if_match=(info.etag,)),
        Conditions(if_size_bytes=4),
        Conditions(if_modified_at=0),
    ):
        with raises(S3Code.PRECONDITION_FAILED):
            await storage.delete_object("bucket", "k", None, failing)
    await storage.delete_object("bucket", "k", None, Conditions(if_match=("*",)))
    assert len(await versions(storage)) == 3


@pytest.mark.needs("versioning")
async def test_conditions__delete_of_a_version__judged_against_that_version(
    storage: Storage,
) -> None:
    await switch(storage, Versioning.ENABLED)
    old, new = await put(storage, "k", b"old"), await put(storage, "k", b"newer")
    for failing in (
        Conditions(if_match=(new.etag,)),
        Conditions(if_size_bytes=new.size_bytes),
        Conditions(if_modified_at=old.modified_ns // 10**9 + 1),
    ):
        with raises(S3Code.PRECONDITION_FAILED):
            await storage.delete_object("bucket", "k", old.version_id, failing)
    holding = Conditions(
        if_match=(old.etag,), if_size_bytes=3, if_modified_at=old.modified_ns // 10**9
    )
    deletion = await storage.delete_object("bucket", "k", old.version_id, holding)
    assert deletion.existed


@pytest.mark.needs("versioning")
async def test_conditions__delete_and_nothing_there__nothing_happens(storage: Storage) -> None:
    for state in (Versioning.OFF, Versioning.ENABLED, Versioning.SUSPENDED):
        await switch(storage, state)
        deletion = await storage.delete_object("bucket", "k", None, Conditions(if_match=("x",)))
        assert deletion == Deletion(existed=False)
        assert await versions(storage) == ()


# Changing and locking


@pytest.mark.needs("versioning")
@pytest.mark.parametrize("which", ["latest", "named", "old"])
async def test_update_object__attributes__only_they_change(storage: Storage, which: str) -> None:
    await switch(storage, Versioning.ENABLED)
    upload_id = await initiate(storage, "k")
    parts = [await put_part(storage, "k", upload_id, n, b"%d" % n) for n in (1, 2)]
    info = await complete(storage, "k", upload_id, parts)
    if which == "old":
        await put(storage, "k", b"newer")
    version_id = None if which == "latest" else info.version_id

    def change(seen: ObjectInfo) -> ObjectAttributes:
        assert seen == replace(info, latest=which != "old")
        return LOCKED

    changed = await storage.update_object("bucket", "k", version_id, change)
    assert changed == replace(info, attributes=LOCKED, latest=which != "old")
    assert await storage.head_object("bucket", "k", version_id) == changed
    assert changed.attributes == LOCKED


@pytest.mark.needs("versioning")
async def test_update_object__refused_or_not_there__nothing_changed(storage: Storage) -> None:
    await switch(storage, Versioning.ENABLED)
    info = await put(storage, "k", b"data")

    def refuse(_: ObjectInfo) -> ObjectAttributes:
        raise ClientError(S3Code.ACCESS_DENIED)

    with raises(S3Code.ACCESS_DENIED):
        await storage.update_object("bucket", "k", None, refuse)
    assert await storage.head_object("bucket", "k", None) == info
    marker_id = (await storage.delete_object("bucket", "k", None)).version_id
    for version_id, code in (
        (None, S3Code.NO_SUCH_KEY),
        (marker_id, S3Code.METHOD_NOT_ALLOWED),
        ("unknown", S3Code.NO_SUCH_VERSION),
    ):
        with raises(code):
            await storage.update_object("bucket", "k", version_id, lambda _: LOCKED)


async def test_update_object__many_at_once__each_sees_the_one_before(storage: Storage) -> None:
    await put(storage, "k", b"data")

    def add(info: ObjectInfo) -> ObjectAttributes:
        tags = info.attributes.tags
        return replace(info.attributes, tags=(*tags, (str(len(tags)), "")))

    await asyncio.gather(*(storage.update_object("bucket", "k", None, add) for _ in range(40)))
    info = await storage.head_object("bucket", "k", None)
    assert [key for key, _ in info.attributes.tags] == [str(number) for number in range(40)]


@pytest.mark.needs("versioning")
async def test_permit__forbids__nothing_is_removed(storage: Storage) -> None:
    await put(storage, "k", b"null")
    await switch(storage, Versioning.SUSPENDED)
    asked: list[ObjectInfo] = []

    def forbid(info: ObjectInfo) -> None:
        asked.append(info)
        raise ClientError(S3Code.ACCESS_DENIED)

    for version_id in (None, "null"):
        with raises(S3Code.ACCESS_DENIED):
            await storage.delete_object("bucket", "k", version_id, permit=forbid)
    assert [info.version_id for info in asked] == ["null", "null"]
    assert await get(storage, "k") == b"null"
    await switch(storage, Versioning.ENABLED)
    await storage.delete_object("bucket", "k", None, permit=forbid)  # a marker removes nothing
    await storage.delete_object("bucket", "k", "unknown", permit=forbid)
    assert len(asked) == 2


# Property: any history of a key is what the rules make of it


@pytest.mark.needs("versioning")
@pytest.mark.parametrize("seed", range(3))
async def test_random_history__any_steps__equals_a_list_of_versions(
    storage: Storage, seed: int
) -> None:
    """Each step is done to the storage and to a plain list, newest first."""
    dice = random.Random(seed).randbytes(150)
    model: list[tuple[str, bytes | None]] = []
    state = Versioning.OFF
    for turn, roll in enumerate(dice):
        match roll % 8:
            case 0:
                state = (Versioning.ENABLED, Versioning.SUSPENDED)[roll // 8 % 2]
                await switch(storage, state)
            case 1 | 2 | 3 | 4:
                body = b"%d" % turn
                version_id = (await put(storage, "k", body)).version_id
                _supersede(model, version_id, body)
            case 5 | 6:
                deletion = await storage.delete_object("bucket", "k", None)
                if state is Versioning.OFF:
                    model = [entry for entry in model if entry[0] != "null"]
                else:
                    _supersede(model, str(deletion.version_id), None)
            case _ if model:
                version_id, _ = model.pop(roll % len(model))
                assert (await storage.delete_object("bucket", "k", version_id)).existed
        listed = await versions(storage)
        assert [info.version_id for info in listed] == [one for one, _ in model]
        assert [info.delete_marker for info in listed] == [body is None for _, body in model]
        assert [info.latest for info in listed] == [place == 0 for place in range(len(model))]
        visible = bool(model) and model[0][1] is not None
        assert await visible_keys(storage) == (["k"] if visible else [])
        if visible:
            assert await get(storage, "k") == model[0][1]


def _supersede(model: list[tuple[str, bytes | None]], version_id: str, body: bytes | None) -> None:
    model[:] = [(version_id, body), *(entry for entry in model if entry[0] != version_id)]
