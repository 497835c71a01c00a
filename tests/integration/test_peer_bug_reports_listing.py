"""Bug reports of other S3 servers, as tests: listings. Each names its report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree

import pytest
from raw_http import RawClient

VERSIONS = pytest.mark.parametrize("version", ["1", "2"])


@dataclass(frozen=True, slots=True)
class Page:
    """One listing as it stands in the XML."""

    root: ElementTree.Element

    def text(self, name: str) -> str | None:
        return self.root.findtext(f"{{*}}{name}")

    @property
    def keys(self) -> list[str]:
        return [found.text or "" for found in self.root.findall("{*}Contents/{*}Key")]

    @property
    def prefixes(self) -> list[str]:
        return [found.text or "" for found in self.root.findall("{*}CommonPrefixes/{*}Prefix")]


ListPage = Callable[..., Page]
Fill = Callable[..., None]


@pytest.fixture
def fill(s3: Any, bucket: str) -> Fill:
    """Puts an object at each key."""

    def put(*keys: str) -> None:
        for key in keys:
            s3.put_object(Bucket=bucket, Key=key)

    return put


@pytest.fixture
def page_of(raw: RawClient, bucket: str) -> ListPage:
    """Gets one page; "_" in a parameter's name stands for "-"."""

    def get(version: str = "2", **parameters: object) -> Page:
        query = {name.replace("_", "-"): str(value) for name, value in parameters.items()}
        if version == "2":
            query["list-type"] = "2"
        target = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        reply = raw.ask("GET", f"/{bucket}?{target}")
        assert reply.status == 200, reply.body
        return Page(ElementTree.fromstring(reply.body))

    return get


def all_pages(page_of: ListPage, version: str, **parameters: object) -> Iterator[Page]:
    """Pages as a client turns them, by what each page says."""
    following: dict[str, str | None] = {}
    while True:
        page = page_of(version, **parameters, **following)
        yield page
        if page.text("IsTruncated") == "false":
            return
        if version == "2":
            following = {"continuation_token": page.text("NextContinuationToken")}
        else:
            following = {"marker": page.text("NextMarker") or page.keys[-1]}


# Order and markers


def test_v1__page_ends_in_a_common_prefix__next_marker_is_that_prefix(
    fill: Fill, page_of: ListPage
) -> None:
    """versitygw#1280."""
    fill("dir1/subdir/file.txt", "dir1/subdir.ext", "dir1/subdir1.ext", "dir1/subdir2.ext")
    listing = {"prefix": "dir1/", "delimiter": "/", "max_keys": 2}
    first = page_of("1", **listing)
    assert (first.keys, first.prefixes) == (["dir1/subdir.ext"], ["dir1/subdir/"])
    assert first.text("NextMarker") == "dir1/subdir/"
    second = page_of("1", marker="dir1/subdir/", **listing)
    assert (second.keys, second.prefixes) == (["dir1/subdir1.ext", "dir1/subdir2.ext"], [])
    assert second.text("IsTruncated") == "false"


@VERSIONS
def test_order__file_and_directory_of_one_name__is_by_bytes(
    fill: Fill, page_of: ListPage, version: str
) -> None:
    """versitygw#1283."""
    keys = ("obj+", "obj/", "obj/x", "obj1", "\uff5e", "\U00010000")  # UTF-16 swaps the last two
    fill(*reversed(keys))
    assert page_of(version).keys == list(keys)
    rolled = page_of(version, delimiter="/")
    assert (rolled.keys, rolled.prefixes) == (["obj+", "obj1", "\uff5e", "\U00010000"], ["obj/"])


@pytest.mark.parametrize(("marker", "rest"), [("a", "bd"), ("aa", "bd"), ("c", "d"), ("z", "")])
def test_marker__key_that_does_not_exist__begins_behind_its_place(
    fill: Fill, page_of: ListPage, marker: str, rest: str
) -> None:
    """versitygw#250."""
    fill("a", "b", "d")
    assert page_of("1", marker=marker).keys == list(rest)
    assert page_of("2", start_after=marker).keys == list(rest)


def test_v1__truncated__has_a_next_marker_only_with_a_delimiter(
    fill: Fill, page_of: ListPage
) -> None:
    """versitygw#999."""
    fill("a", "b")
    plain = page_of("1", max_keys=1)
    assert (plain.text("IsTruncated"), plain.text("NextMarker")) == ("true", None)
    assert page_of("1", max_keys=1, delimiter="/").text("NextMarker") == "a"


def test_v2__start_after__is_echoed_and_is_no_continuation_token(
    fill: Fill, page_of: ListPage
) -> None:
    """InsForge#1959."""
    fill("a", "b", "c", "d")
    first = page_of(start_after="a", max_keys=1)
    assert (first.keys, first.text("StartAfter")) == (["b"], "a")
    assert first.text("ContinuationToken") is None
    token = first.text("NextContinuationToken")
    second = page_of(start_after="c", continuation_token=token, max_keys=1)
    assert second.keys == ["c"]  # the token decides alone
    assert second.text("ContinuationToken") == token


@pytest.mark.parametrize(
    ("start_after", "shown"),
    [
        ("prefix1", ["prefix1/", "prefix2/"]),
        ("prefix1/a", ["prefix1/", "prefix2/"]),  # a key under it still follows
        ("prefix1/", ["prefix2/"]),  # nothing comes behind itself; so NextMarker works, too
        ("prefix1/object", ["prefix2/"]),
        ("prefix1/zzz", ["prefix2/"]),
    ],
)
def test_v2__start_after_with_a_delimiter__still_shows_prefixes_with_keys_behind_it(
    fill: Fill, page_of: ListPage, start_after: str, shown: list[str]
) -> None:
    """versitygw#1275."""
    fill("prefix1/object", "prefix2/object")
    page = page_of(prefix="prefix", delimiter="/", start_after=start_after)
    assert (page.prefixes, page.keys) == (shown, [])


@VERSIONS
@pytest.mark.parametrize("max_keys", [1, 2, 3, 7])
def test_pages__of_any_size__show_each_key_and_common_prefix_once(
    fill: Fill, page_of: ListPage, version: str, max_keys: int
) -> None:
    """ksan#211, InsForge#1959."""
    fill("a/1", "a/2", "a/3", "b", "c/1", "c/2", "d")
    keys, prefixes = [], []
    for page in all_pages(page_of, version, delimiter="/", max_keys=max_keys):
        assert len(page.keys) + len(page.prefixes) <= max_keys
        keys += page.keys
        prefixes += page.prefixes
    assert (keys, prefixes) == (["b", "d"], ["a/", "c/"])


@pytest.mark.parametrize(("max_keys", "counts"), [(2, ["2", "2"]), (3, ["3", "1"]), (9, ["4"])])
def test_v2__key_count__counts_objects_and_common_prefixes(
    fill: Fill, page_of: ListPage, max_keys: int, counts: list[str]
) -> None:
    """ksan#211."""
    fill("a/1", "a/2", "b", "c/1", "d")
    pages = all_pages(page_of, "2", delimiter="/", max_keys=max_keys)
    assert [page.text("KeyCount") for page in pages] == counts


# encoding-type

AWKWARD = ("a b/1", "a%20b/1", "a+b/1", "a&b/1", "\u00e9/1", "~(!)*'/1")


@VERSIONS
@pytest.mark.parametrize("max_keys", [1, 4])
def test_encoding_type_url__every_page__encodes_what_is_shown_and_compares_what_is_stored(
    fill: Fill, page_of: ListPage, version: str, max_keys: int
) -> None:
    """localstack#13746."""
    fill(*AWKWARD)
    listing = {"encoding_type": "url", "max_keys": max_keys}
    shown = [key for page in all_decoded(page_of, version, **listing) for key in page.keys]
    assert list(map(unquote, shown)) == sorted(AWKWARD, key=str.encode)
    assert not [key for key in shown if set(key) & set(" +&\u00e9") or "%2F" in key]
    rolled = all_decoded(page_of, version, delimiter="/", **listing)
    prefixes = [unquote(prefix) for page in rolled for prefix in page.prefixes]
    assert prefixes == sorted((key.removesuffix("1") for key in AWKWARD), key=str.encode)


def all_decoded(page_of: ListPage, version: str, **parameters: object) -> Iterator[Page]:
    """`all_pages` of a client that asked for encoding: it decodes keys, and never the token."""

    def decoding(version: str, **given: object) -> Page:
        if "marker" in given:
            given["marker"] = unquote(str(given["marker"]))
        return page_of(version, **given)

    return all_pages(decoding, version, **parameters)


def test_encoding_type_url__prefix_delimiter_and_start_after__are_encoded_when_echoed_only(
    fill: Fill, page_of: ListPage
) -> None:
    """localstack#13746."""
    fill(*AWKWARD, "a b/2")
    page = page_of(encoding_type="url", prefix="a b", delimiter="+ ", start_after="a b/1")
    assert page.keys == ["a%20b/2"]
    assert page.text("EncodingType") == "url"
    echoed = [page.text(name) for name in ("Prefix", "Delimiter", "StartAfter")]
    assert echoed == ["a%20b", "%2B%20", "a%20b/1"]


def test_encoding_type__not_asked_for__nothing_is_encoded(fill: Fill, page_of: ListPage) -> None:
    """localstack#13746."""
    fill(*AWKWARD)
    page = page_of()
    assert page.keys == sorted(AWKWARD, key=str.encode)
    assert page.text("EncodingType") is None


CONTROL = [f"X{chr(number)}Y" for number in range(1, 32)] + ["X\x7fY"]


@VERSIONS
def test_control_characters__in_keys__neither_break_nor_alias_an_encoded_listing(
    fill: Fill, page_of: ListPage, version: str
) -> None:
    """minio#15023."""
    fill(*CONTROL)
    pages = all_decoded(page_of, version, encoding_type="url", max_keys=5)
    assert [unquote(key) for page in pages for key in page.keys] == CONTROL


def test_control_characters__without_encoding__are_references_as_s3_writes_them(
    raw: RawClient, fill: Fill, bucket: str
) -> None:
    """minio#15023: XML 1.0 can't hold them; told apart they must be all the same."""
    fill("X\x01Y", "X\x02Y")
    body = raw.ask("GET", f"/{bucket}").body
    assert b"<Key>X&#x1;Y</Key>" in body
    assert b"<Key>X&#x2;Y</Key>" in body


# Uploads in progress


def test_uploads__delimiter__rolls_keys_up(s3: Any, bucket: str) -> None:
    """versitygw#1747."""
    for key in ("multipart/01", "multipart/02", "other/01", "top"):
        s3.create_multipart_upload(Bucket=bucket, Key=key)
    listing = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [upload["Key"] for upload in listing["Uploads"]] == ["top"]
    prefixes = [found["Prefix"] for found in listing["CommonPrefixes"]]
    assert prefixes == ["multipart/", "other/"]
    inside = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/", Prefix="multipart/")
    assert [upload["Key"] for upload in inside["Uploads"]] == ["multipart/01", "multipart/02"]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_uploads__pages_break_within_one_key__each_upload_comes_once(
    s3: Any, bucket: str, size: int
) -> None:
    """versitygw#1747."""
    begun = [
        (key, s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"])
        for key in ("a", "b", "b", "b", "b", "c")
    ]
    pages = s3.get_paginator("list_multipart_uploads").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": size}
    )
    found = [(upload["Key"], upload["UploadId"]) for page in pages for upload in page["Uploads"]]
    assert found == begun
