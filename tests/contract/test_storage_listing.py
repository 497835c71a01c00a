"""Listing against a model that knows no index: plain set arithmetic over all keys."""

import asyncio
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storing import initiate, put

from gateway.storage.port import ListQuery, Storage

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


pieces = st.sampled_from(
    ["a", "b", "/", "//", "+", "0", ".", "\0", "\x7f", "\u00e9", "\uffff", "\U0001f600"]
)
texts = st.lists(pieces, min_size=1, max_size=6).map("".join)
queries = st.tuples(
    st.one_of(st.just(""), texts),
    st.sampled_from(["", "/", "//", "a", "\u00e9"]),
    st.integers(1, 5),
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(keys=st.sets(texts, max_size=25), questions=st.lists(queries, min_size=1, max_size=6))
async def test_list_objects__any_keys_and_pages__equal_the_model(
    storage: Storage, keys: set[str], questions: list[tuple[str, str, int]]
) -> None:
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
@given(keys=st.sets(texts, max_size=20), after=texts, delimiter=st.sampled_from(["", "/"]))
async def test_list_objects__any_marker__what_sorts_after_it(
    storage: Storage, keys: set[str], after: str, delimiter: str
) -> None:
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
    await storage.create_bucket("bucket2", "us-east-1")
    await put(storage, "mine", bucket="bucket2")
    await put(storage, "theirs")
    page = await storage.list_objects(ListQuery("bucket2"))
    assert [info.key for info in page.objects] == ["mine"]


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
