"""Listings through the verbs: what peers got wrong, and pages against a model."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from s3_desk import Desk, refused, request

from gateway.errors import S3Code
from gateway.s3.results import XmlReply
from gateway.storage.memory import MemoryStorage
from gateway.wire.xml import render


async def fill(desk: Desk, *keys: str) -> None:
    for key in keys:
        await desk.ask("PutObject", Bucket="shop", Key=key)


def keys(listing: dict[str, Any]) -> list[str]:
    return [entry["Key"] for entry in listing.get("Contents", ())]


def prefixes(listing: dict[str, Any]) -> list[str]:
    return [entry["Prefix"] for entry in listing.get("CommonPrefixes", ())]


async def test_list_objects__keys_around_the_delimiter__come_in_byte_order(desk: Desk) -> None:
    await fill(desk, "obj1", "obj/", "obj+", "\U0001f600", "\ufb01")
    listing = await desk.ask("ListObjects", Bucket="shop")
    assert keys(listing) == ["obj+", "obj/", "obj1", "\ufb01", "\U0001f600"]


async def test_list_objects__entry_facts__are_the_objects(desk: Desk) -> None:
    put = await desk.ask("PutObject", Bucket="shop", Key="k", Body=b"abc", StorageClass="GLACIER")
    head = await desk.ask("HeadObject", Bucket="shop", Key="k")
    (entry,) = (await desk.ask("ListObjects", Bucket="shop"))["Contents"]
    assert entry["ETag"] == put["ETag"] == head["ETag"]
    assert (entry["Size"], entry["StorageClass"]) == (3, "GLACIER")
    assert entry["LastModified"] == head["LastModified"]
    assert entry["Owner"]["DisplayName"]


async def test_list_objects__next_marker__may_be_a_common_prefix(desk: Desk) -> None:
    await fill(desk, "dir1/subdir/file", "dir1/subdir.ext", "dir1/subdir1.ext")
    page = await desk.ask("ListObjects", Bucket="shop", Prefix="dir1/", Delimiter="/", MaxKeys=2)
    assert (keys(page), prefixes(page)) == (["dir1/subdir.ext"], ["dir1/subdir/"])
    assert page["NextMarker"] == "dir1/subdir/"
    rest = await desk.ask(
        "ListObjects", Bucket="shop", Prefix="dir1/", Delimiter="/", Marker=page["NextMarker"]
    )
    assert (keys(rest), prefixes(rest)) == (["dir1/subdir1.ext"], [])


async def test_list_objects__truncated_without_delimiter__has_no_next_marker(desk: Desk) -> None:
    await fill(desk, "a", "b")
    page = await desk.ask("ListObjects", Bucket="shop", MaxKeys=1)
    assert page["IsTruncated"]
    assert "NextMarker" not in page


async def test_list_objects__marker_that_does_not_exist__begins_behind_it(desk: Desk) -> None:
    await fill(desk, "a", "c")
    assert keys(await desk.ask("ListObjects", Bucket="shop", Marker="b")) == ["c"]


async def test_list_objects__max_keys_zero__is_an_empty_page(desk: Desk) -> None:
    await fill(desk, "a")
    page = await desk.ask("ListObjects", Bucket="shop", MaxKeys=0)
    assert (keys(page), page["IsTruncated"], page["MaxKeys"]) == ([], False, 0)


@pytest.mark.parametrize("verb", ["ListObjects", "ListObjectsV2", "ListObjectVersions"])
async def test_list__missing_bucket__is_no_such_bucket(desk: Desk, verb: str) -> None:
    with refused(S3Code.NO_SUCH_BUCKET):
        await desk.ask(verb, Bucket="none")


async def test_list_objects_v2__start_after__keeps_prefixes_behind_it(desk: Desk) -> None:
    await fill(desk, "prefix1/object", "prefix2/object")
    page = await desk.ask(
        "ListObjectsV2", Bucket="shop", Prefix="prefix", Delimiter="/", StartAfter="prefix1"
    )
    assert prefixes(page) == ["prefix1/", "prefix2/"]
    assert page["StartAfter"] == "prefix1"
    assert "ContinuationToken" not in page


async def test_list_objects_v2__token_beside_start_after__token_wins(desk: Desk) -> None:
    await fill(desk, "bar", "baz", "foo", "quxx")
    first = await desk.ask("ListObjectsV2", Bucket="shop", StartAfter="bar", MaxKeys=1)
    token = first["NextContinuationToken"]
    page = await desk.ask("ListObjectsV2", Bucket="shop", StartAfter="bar", ContinuationToken=token)
    assert (keys(first), keys(page)) == (["baz"], ["foo", "quxx"])
    assert (page["ContinuationToken"], page["StartAfter"]) == (token, "bar")


async def test_list_objects_v2__empty_token__begins_at_the_start(desk: Desk) -> None:
    await fill(desk, "a")
    page = await desk.ask("ListObjectsV2", Bucket="shop", ContinuationToken="")
    assert (keys(page), page["ContinuationToken"]) == (["a"], "")


@pytest.mark.parametrize("token", ["a", "not base64!", "_w=="])
async def test_list_objects_v2__foreign_token__is_invalid_argument(desk: Desk, token: str) -> None:
    with refused(S3Code.INVALID_ARGUMENT):
        await desk.ask("ListObjectsV2", Bucket="shop", ContinuationToken=token)


async def test_list_objects_v2__key_count__counts_objects_and_prefixes(desk: Desk) -> None:
    await fill(desk, "a", "b/1", "b/2")
    page = await desk.ask("ListObjectsV2", Bucket="shop", Delimiter="/")
    assert page["KeyCount"] == 2


async def test_list_objects_v2__fetch_owner__adds_the_owner(desk: Desk) -> None:
    await fill(desk, "a")
    bare = await desk.ask("ListObjectsV2", Bucket="shop")
    full = await desk.ask("ListObjectsV2", Bucket="shop", FetchOwner=True)
    assert "Owner" not in bare["Contents"][0]
    assert full["Contents"][0]["Owner"]["ID"]


async def test_list__encoding_type_url__encodes_what_is_shown_only(desk: Desk) -> None:
    key = "dir \x01/ü&+%2F"
    await fill(desk, key)
    flat = await desk.ask("ListObjectsV2", Bucket="shop", EncodingType="url", Prefix="dir \x01")
    rolled = await desk.ask("ListObjects", Bucket="shop", EncodingType="url", Delimiter=" ")
    assert keys(flat) == [quote(key, safe="/")]
    assert flat["Prefix"] == "dir%20%01"
    assert prefixes(rolled) == ["dir%20"]
    assert rolled["Delimiter"] == "%20"


@pytest.mark.parametrize("verb", ["ListObjects", "ListObjectsV2", "ListObjectVersions"])
async def test_list__control_characters_in_keys__neither_break_nor_alias(
    desk: Desk, verb: str
) -> None:
    stored = ["\x01", "\x01a", "%01", "&#1;", "a\x00b", "a\r\nb", "a\x7fb", "a\u0085b", "a\uffffb"]
    await fill(desk, *stored)
    encoded = await desk.ask(verb, Bucket="shop", EncodingType="url")
    entries = encoded.get("Contents") or encoded["Versions"]
    assert sorted(unquote(entry["Key"]) for entry in entries) == sorted(stored)
    head, _ = request(verb, Bucket="shop")
    plain = await desk.perform(head)
    assert isinstance(plain, XmlReply)
    document = render(plain.root).decode()
    assert not [found for found in document if found < " " and found != "\n"]
    assert document.count("<Key>") == len(stored)


async def test_list__directory_marker_beside_its_file__shows_both(desk: Desk) -> None:
    await fill(desk, "dir/", "dir/file")
    listing = await desk.ask("ListObjectsV2", Bucket="shop", Prefix="dir/", Delimiter="/")
    assert keys(listing) == ["dir/", "dir/file"]


async def test_list_versions__unversioned__every_key_is_null_and_latest(desk: Desk) -> None:
    await fill(desk, "a", "b/c")
    page = await desk.ask("ListObjectVersions", Bucket="shop", Delimiter="/")
    (version,) = page["Versions"]
    assert (version["Key"], version["VersionId"], version["IsLatest"]) == ("a", "null", True)
    assert prefixes(page) == ["b/"]


async def test_list_versions__pages__continue_at_the_markers(desk: Desk) -> None:
    await fill(desk, "a", "b", "c")
    seen: list[str] = []
    markers: dict[str, str] = {}
    while True:
        page = await desk.ask("ListObjectVersions", Bucket="shop", MaxKeys=1, **markers)
        seen += [version["Key"] for version in page["Versions"]]
        if not page["IsTruncated"]:
            break
        markers = {
            "KeyMarker": page["NextKeyMarker"],
            "VersionIdMarker": page["NextVersionIdMarker"],
        }
    assert seen == ["a", "b", "c"]


def rolled_up(stored: set[str], prefix: str, delimiter: str) -> list[str]:
    """The model: every entry of an unlimited listing, prefixes once, in byte order."""
    entries = set()
    for key in stored:
        if key.startswith(prefix):
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            entries.add(key if end < 0 else key[: end + len(delimiter)])
    return sorted(entries, key=lambda entry: entry.encode())


KEYS = st.text("ab/\u00e9", min_size=1, max_size=5)


@settings(deadline=None)
@given(
    stored=st.sets(KEYS, max_size=12),
    prefix=st.text("ab/", max_size=2),
    delimiter=st.sampled_from(["", "/", "b", "//"]),
    max_keys=st.integers(1, 4),
    version=st.sampled_from([1, 2]),
)
async def test_list__pages_of_any_size__together_are_the_whole_listing(
    stored: set[str], prefix: str, delimiter: str, max_keys: int, version: int
) -> None:
    desk = Desk(MemoryStorage())
    await desk.ask("CreateBucket", Bucket="shop")
    await fill(desk, *stored)
    asked = {"Bucket": "shop", "Prefix": prefix, "Delimiter": delimiter, "MaxKeys": max_keys}
    entries: list[str] = []
    place: dict[str, str] = {}
    for _ in range(len(stored) + 1):
        page = await desk.ask("ListObjects" if version == 1 else "ListObjectsV2", **asked, **place)
        shown = sorted(keys(page) + prefixes(page), key=lambda entry: entry.encode())
        entries += shown
        if not page["IsTruncated"]:
            break
        assert len(shown) == max_keys
        if version == 1:
            place = {"Marker": page["NextMarker"] if delimiter else shown[-1]}
        else:
            assert page["KeyCount"] == len(shown)
            place = {"ContinuationToken": page["NextContinuationToken"]}
    assert entries == rolled_up(stored, prefix, delimiter)
