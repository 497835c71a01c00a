"""Listing against a model that knows no index: plain set arithmetic over all keys."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storing import holdable, initiate, new_bucket, put

from gateway.storage.port import ListQuery, ObjectInfo, Storage, Versioning, VersionQuery

Entry = tuple[str, bool]  # (text, whether it is a common prefix)


def model(keys: Iterable[str], prefix: str, delimiter: str) -> list[Entry]:
    """All entries of a listing without pages, in byte order."""
    entries = set()
    for key in keys:
        if not key.startswith(prefix):
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter or "\0\0never")
        entries.add((prefix + head + found, True) if found and delimiter else (key, False))
    return sorted(entries, key=lambda entry: entry[0].encode())


async def pages(storage: Storage, prefix: str, delimiter: str, limit: int) -> list[list[Entry]]:
    """Follow next_after to the end."""
    found, after = [], ""
    while True:
        query = ListQuery("bucket", prefix, delimiter, after, limit)
        page = await storage.list_objects(query)
        entries = [(info.key, False) for info in page.objects]
        entries += [(rolled, True) for rolled in page.prefixes]
        found.append(sorted(entries, key=lambda entry: entry[0].encode()))
        if page.next_after is None:
            return found
        assert page.next_after == found[-1][-1][0]
        assert len(entries) == limit
        after = page.next_after


async def fill(storage: Storage, keys: Iterable[str]) -> None:
    await asyncio.gather(*(put(storage, key) for key in keys))


# UTF-8 orders them otherwise than UTF-16 does, and some are no characters of XML.
pieces = st.one_of(
    st.sampled_from(["a", "b", "/", "//", "+", "0", ".", "\0", "\x7f", "\u00e9", "\uffff"]),
    st.sampled_from(["\U0001f600", "\U00010000", "\ue000", "\x01", "\x1f", "\x80", "\x85", " "]),
)
texts = st.lists(pieces, min_size=1, max_size=6).map("".join)
delimiters = st.one_of(
    st.just(""), st.just("/"), st.lists(pieces, min_size=1, max_size=3).map("".join)
)
queries = st.tuples(st.one_of(st.just(""), texts), delimiters, st.integers(1, 5))


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(keys=st.sets(texts, max_size=25), questions=st.lists(queries, min_size=1, max_size=6))
async def test_list_objects__any_keys_and_pages__equal_the_model(
    storage: Storage, keys: set[str], questions: list[tuple[str, str, int]]
) -> None:
    keys = holdable(storage, keys)
    await fill(storage, keys)
    for prefix, delimiter, limit in questions:
        found = await pages(storage, prefix, delimiter, limit)
        assert [entry for page in found for entry in page] == model(keys, prefix, delimiter)
    await asyncio.gather(*(storage.delete_object("bucket", key, None) for key in keys))


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(keys=st.sets(texts, max_size=20), after=texts, delimiter=delimiters)
async def test_list_objects__any_marker__what_sorts_after_it(
    storage: Storage, keys: set[str], after: str, delimiter: str
) -> None:
    keys = holdable(storage, keys)
    await fill(storage, keys)
    later = {key for key in keys if key.encode() > after.encode()}
    if delimiter and after.endswith(delimiter):  # it is a common prefix: all below it is past
        later = {key for key in later if not key.startswith(after)}
    page = await storage.list_objects(ListQuery("bucket", "", delimiter, after))
    shown = [(info.key, False) for info in page.objects] + [(p, True) for p in page.prefixes]
    assert sorted(shown, key=lambda entry: entry[0].encode()) == model(later, "", delimiter)
    await asyncio.gather(*(storage.delete_object("bucket", key, None) for key in keys))


async def test_list_objects__directory_marker_equal_to_prefix__is_shown_and_passed_over(
    storage: Storage,
) -> None:
    await fill(storage, ["dir/", "dir/file", "dir/sub/x"])
    assert await pages(storage, "dir/", "/", 1) == [
        [("dir/", False)],
        [("dir/file", False)],
        [("dir/sub/", True)],
    ]


@pytest.mark.needs("any_key")
async def test_list_objects__delimiter_overlaps_the_prefix__key_is_no_common_prefix(
    storage: Storage,
) -> None:
    await fill(storage, ["a/", "a//", "a//b", "a///", "a///c"])
    entries = [entry for page in await pages(storage, "a/", "//", 1) for entry in page]
    assert entries == [("a/", False), ("a//", False), ("a///", True), ("a//b", False)]


async def test_list_objects__byte_order__plus_slash_digit(storage: Storage) -> None:
    await fill(storage, ["obj1", "obj/", "obj+", "\uffff", "\U00010000"])
    page = await storage.list_objects(ListQuery("bucket"))
    assert [info.key for info in page.objects] == ["obj+", "obj/", "obj1", "\uffff", "\U00010000"]


async def test_list_objects__limit_zero__empty_and_not_truncated(storage: Storage) -> None:
    await fill(storage, ["a", "b"])
    page = await storage.list_objects(ListQuery("bucket", limit=0))
    assert (page.objects, page.prefixes, page.next_after) == ((), (), None)


async def test_list_objects__exactly_one_page__no_next(storage: Storage) -> None:
    await fill(storage, ["a", "b", "c/1", "c/2"])
    page = await storage.list_objects(ListQuery("bucket", "", "/", "", 3))
    assert (len(page.objects), page.prefixes, page.next_after) == (2, ("c/",), None)


async def test_list_objects__prefix_holds_the_marker__later_keys_still_show_it(
    storage: Storage,
) -> None:
    await fill(storage, ["p/a", "p/z", "q"])
    page = await storage.list_objects(ListQuery("bucket", "", "/", "p/m"))
    assert (page.prefixes, [info.key for info in page.objects]) == (("p/",), ["q"])


async def test_list_objects__other_bucket__not_mixed(storage: Storage) -> None:
    await storage.create_bucket(new_bucket("bucket2"))
    await put(storage, "mine", bucket="bucket2")
    await put(storage, "theirs")
    page = await storage.list_objects(ListQuery("bucket2"))
    assert [info.key for info in page.objects] == ["mine"]


# Versions

VersionEntry = tuple[str, str]  # (key, version id), or (common prefix, "")


def version_model(stored: Sequence[ObjectInfo], prefix: str, delimiter: str) -> list[VersionEntry]:
    """All entries without pages; `stored` are all versions, of one key the newest first."""
    entries: list[VersionEntry] = []
    for info in sorted(stored, key=lambda info: info.key.encode()):
        if not info.key.startswith(prefix):
            continue
        head, found, _ = info.key[len(prefix) :].partition(delimiter or "\0\0never")
        rolled = bool(found and delimiter)
        entry = (prefix + head + found, "") if rolled else (info.key, info.version_id)
        if entry not in entries:
            entries.append(entry)
    return sorted(entries, key=lambda entry: entry[0].encode())


async def version_pages(
    storage: Storage, prefix: str, delimiter: str, limit: int
) -> list[VersionEntry]:
    """Follow the markers to the end."""
    found: list[VersionEntry] = []
    after = ("", "")
    while True:
        query = VersionQuery("bucket", prefix, delimiter, *after, limit=limit)
        page = await storage.list_versions(query)
        entries = [(info.key, info.version_id) for info in page.versions]
        entries += [(rolled, "") for rolled in page.prefixes]
        entries.sort(key=lambda entry: entry[0].encode())  # stable: versions stay in order
        found += entries
        if page.next_key is None or page.next_version is None:
            assert page.next_key is page.next_version is None
            return found
        assert len(entries) == limit
        after = (page.next_key, page.next_version)
        assert after == entries[-1]


changes = st.lists(st.tuples(texts, st.sampled_from(["put", "delete"])), max_size=25)


@pytest.mark.needs("versioning")
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(history=changes, questions=st.lists(queries, min_size=1, max_size=6))
async def test_list_versions__any_history_and_pages__equal_the_model(
    storage: Storage, history: list[tuple[str, str]], questions: list[tuple[str, str, int]]
) -> None:
    await storage.update_bucket("bucket", lambda info: replace(info, versioning=Versioning.ENABLED))
    for key, change in history:
        if change == "put":
            await put(storage, key)
        else:
            await storage.delete_object("bucket", key, None)
    stored = (await storage.list_versions(VersionQuery("bucket"))).versions
    assert sorted(info.key for info in stored) == sorted(key for key, _ in history)
    latest = dict(history)
    assert {info.key for info in stored if info.latest} == set(latest)
    visible = [key for key, change in latest.items() if change == "put"]
    for prefix, delimiter, limit in questions:
        found = await version_pages(storage, prefix, delimiter, limit)
        assert found == version_model(stored, prefix, delimiter)
        objects = await pages(storage, prefix, delimiter, limit)
        assert [entry for page in objects for entry in page] == model(visible, prefix, delimiter)
    for info in stored:
        await storage.delete_object("bucket", info.key, info.version_id)


async def three_keys(storage: Storage) -> dict[str, list[str]]:
    """Version ids by key, the newest first: "b" has four, the newest of them a marker."""
    await storage.update_bucket("bucket", lambda info: replace(info, versioning=Versioning.ENABLED))
    ids: dict[str, list[str]] = {}
    for key in ("a", "b", "b", "b", "c"):
        ids.setdefault(key, []).insert(0, (await put(storage, key)).version_id)
    ids["b"].insert(0, str((await storage.delete_object("bucket", "b", None)).version_id))
    return ids


@pytest.mark.needs("versioning")
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 1000])
async def test_list_versions__a_page_ends_anywhere__latest_is_right(
    storage: Storage, limit: int
) -> None:
    ids = await three_keys(storage)
    found: list[ObjectInfo] = []
    after = ("", "")
    while after[0] is not None:
        page = await storage.list_versions(VersionQuery("bucket", "", "", *after, limit=limit))
        found += page.versions
        after = (page.next_key, page.next_version)  # type: ignore[assignment]
    assert [info.version_id for info in found] == [*ids["a"], *ids["b"], *ids["c"]]
    assert [info.latest for info in found] == [True, True, False, False, False, True]
    assert [info.delete_marker for info in found] == [False, True, False, False, False, False]


@pytest.mark.needs("versioning")
async def test_list_versions__key_marker_alone__behind_all_of_that_key(storage: Storage) -> None:
    ids = await three_keys(storage)
    page = await storage.list_versions(VersionQuery("bucket", after_key="b"))
    assert [info.version_id for info in page.versions] == ids["c"]
    page = await storage.list_versions(VersionQuery("bucket", limit=0))
    assert (page.versions, page.prefixes, page.next_key) == ((), (), None)


@pytest.mark.needs("versioning")
@pytest.mark.parametrize("gone", [0, 1, 2, 3])
async def test_list_versions__marker_deleted_meanwhile__no_version_is_lost(
    storage: Storage, gone: int
) -> None:
    ids = await three_keys(storage)
    await storage.delete_object("bucket", "b", ids["b"][gone])
    query = VersionQuery("bucket", after_key="b", after_version=ids["b"][gone])
    shown = [info.version_id for info in (await storage.list_versions(query)).versions]
    assert set(ids["b"][gone + 1 :] + ids["c"]) <= set(shown)


@pytest.mark.needs("versioning")
async def test_list_versions__each_page_deleted_before_the_next__ends_empty(
    storage: Storage,
) -> None:
    await three_keys(storage)
    after: tuple[str | None, str | None] = ("", "")
    while after[0] is not None:
        query = VersionQuery("bucket", "", "", after[0], after[1] or "", limit=2)
        page = await storage.list_versions(query)
        for info in page.versions:
            await storage.delete_object("bucket", info.key, info.version_id)
        after = (page.next_key, page.next_version)
    await storage.delete_bucket("bucket")


# Uploads


async def upload_pages(
    storage: Storage, prefix: str, delimiter: str, limit: int
) -> Sequence[tuple[str, str]]:
    """(key or prefix, upload id or "") over all pages, in the order shown."""
    found: list[tuple[str, str]] = []
    after_key = after_id = ""
    while True:
        page = await storage.list_uploads("bucket", prefix, delimiter, after_key, after_id, limit)
        entries = [(info.key, info.upload_id) for info in page.uploads]
        entries += [(rolled, "") for rolled in page.prefixes]
        entries.sort(key=lambda entry: (entry[0].encode(), entry[1]))
        found += entries
        if page.next_key is None or page.next_upload_id is None:
            assert page.next_key is page.next_upload_id is None
            return found
        assert (page.next_key, page.next_upload_id) == entries[-1]
        after_key, after_id = page.next_key, page.next_upload_id


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
async def test_list_uploads__pages_within_one_key__in_order_of_initiation(
    storage: Storage, limit: int
) -> None:
    expected = [(key, await initiate(storage, key)) for key in ("a", "b", "b", "b", "c")]
    assert await upload_pages(storage, "", "", limit) == expected
    assert await upload_pages(storage, "b", "", limit) == expected[1:4]


@pytest.mark.parametrize("limit", [1, 2, 1000])
async def test_list_uploads__delimiter__rolled_up(storage: Storage, limit: int) -> None:
    ids = {key: await initiate(storage, key) for key in ("d/1", "d/2", "e", "f/1", "f0")}
    expected = [("d/", ""), ("e", ids["e"]), ("f/", ""), ("f0", ids["f0"])]
    assert await upload_pages(storage, "", "/", limit) == expected


async def test_list_uploads__markers__exclusive(storage: Storage) -> None:
    first, second = await initiate(storage, "k"), await initiate(storage, "k")
    after_first = await storage.list_uploads("bucket", "", "", "k", first, 10)
    assert [info.upload_id for info in after_first.uploads] == [second]
    after_key = await storage.list_uploads("bucket", "", "", "k", "", 10)
    assert after_key.uploads == ()
    await storage.abort_upload("bucket", "k", first)
    marker_gone = await storage.list_uploads("bucket", "", "", "k", first, 10)
    assert [info.upload_id for info in marker_gone.uploads] == [second]


async def test_list_uploads__limit_zero__empty(storage: Storage) -> None:
    await initiate(storage, "k")
    page = await storage.list_uploads("bucket", "", "", "", "", 0)
    assert (page.uploads, page.prefixes, page.next_key) == ((), (), None)
