"""Listing real directories: against a model that sorts all keys, and by what of them is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storing import put

from gateway.storage.port import ListQuery
from gateway.storage.tree import walk
from gateway.storage.tree.storage import TreeStorage

Entry = tuple[str, bool]  # (text, whether it is a common prefix)

# Names that sort around "/", and are prefixes of each other.
names = st.sampled_from(["a", "a+", "a0", "ab", "b", "\u00e9", "\uffff", "\U00010000"])
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
delimiters = st.sampled_from(["", "/", "a", "a/", "/a", "+", "//"])
questions = st.lists(
    st.tuples(
        st.one_of(st.just(""), paths, paths.map(lambda path: path + "/")),
        delimiters,
        st.one_of(st.just(""), paths, paths.map(lambda path: path + "/")),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=8,
)


def model(keys: Iterable[str], prefix: str, delimiter: str, after: str) -> list[Entry]:
    """All that a listing shows behind a marker, in byte order."""
    entries = set()
    rolls = delimiter and after[len(prefix) :].endswith(delimiter) and after.startswith(prefix)
    for key in keys:
        if not key.startswith(prefix) or key.encode() <= after.encode():
            continue
        if rolls and key.startswith(after):
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter or "\0")
        entries.add((prefix + head + found, True) if found else (key, False))
    return sorted(entries, key=lambda entry: entry[0].encode())


async def listed(
    tree: TreeStorage, prefix: str, delimiter: str, after: str, limit: int
) -> list[Entry]:
    """Follow next_after to the end."""
    found: list[Entry] = []
    while True:
        page = await tree.list_objects(ListQuery("bucket", prefix, delimiter, after, limit))
        entries = [(info.key, False) for info in page.objects]
        entries += [(rolled, True) for rolled in page.prefixes]
        found += sorted(entries, key=lambda entry: entry[0].encode())
        if page.next_after is None:
            return found
        assert len(entries) == limit
        after = page.next_after


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(wanted=st.sets(paths, max_size=30), marked=st.sets(paths, max_size=3), asked=questions)
async def test_list_objects__any_directories_pages_and_markers__equal_the_model(
    tree: TreeStorage,
    bucket: Path,
    wanted: set[str],
    marked: set[str],
    asked: list[tuple[str, str, str, int]],
) -> None:
    for left in os.listdir(bucket):  # of the example before
        shutil.rmtree(bucket / left, ignore_errors=True)
        (bucket / left).unlink(missing_ok=True)
    keys = [key for key in wanted if not any(other.startswith(key + "/") for other in wanted)]
    for key in keys:
        (bucket / key).parent.mkdir(parents=True, exist_ok=True)
        (bucket / key).write_bytes(b"")
    markers = [f"{path}/" for path in marked if (bucket / path).is_dir()]
    for marker in markers:
        await put(tree, marker)
    for prefix, delimiter, after, limit in asked:
        expected = model([*keys, *markers], prefix, delimiter, after)
        assert await listed(tree, prefix, delimiter, after, limit) == expected


@pytest.fixture(params=[1, 2, 3])
def small_batch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(walk, "BATCH", request.param)
    batch: int = request.param
    return batch


@pytest.mark.parametrize("delimiter", ["", "/", "a"])
async def test_list_objects__directories_over_a_batch__no_entry_is_lost_or_shown_twice(
    tree: TreeStorage, bucket: Path, small_batch: int, delimiter: str
) -> None:
    keys = [f"{one}/{other}" for one in ("a", "a0", "b/c", "b/d", "e") for other in "abcde"]
    keys += ["a+", "b0", "c", "d", "f", "g"]
    for key in keys:
        (bucket / key).parent.mkdir(parents=True, exist_ok=True)
        (bucket / key).write_bytes(b"")
    (bucket / "empty" / "below").mkdir(parents=True)
    for prefix in ("", "a", "b/", "b/c"):
        for after in ("", "a/c", "b/c/", "b/d/c", "c"):
            expected = model(keys, prefix, delimiter, after)
            for limit in (1, 2, 1000):
                assert await listed(tree, prefix, delimiter, after, limit) == expected


async def test_list_objects__one_page_of_many_directories__opens_what_it_shows(
    tree: TreeStorage, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With "/" a directory is looked into only until something is found in it."""
    for number in range(50):
        (bucket / f"d{number:02}" / "below").mkdir(parents=True)
        for name in range(5):
            (bucket / f"d{number:02}" / "below" / str(name)).write_bytes(b"")
    scans: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(
        os, "scandir", lambda fd: scans.append(os.readlink(f"/proc/self/fd/{fd}")) or scandir(fd)
    )
    page = await tree.list_objects(ListQuery("bucket", delimiter="/", limit=10))
    assert page.prefixes == tuple(f"d{number:02}/" for number in range(10))
    assert scans.count(str(bucket)) == 1
    assert len(scans) <= 1 + 2 * 11
    scans.clear()
    page = await tree.list_objects(ListQuery("bucket", prefix="d17/below/", limit=3))
    assert [info.key for info in page.objects] == [f"d17/below/{name}" for name in range(3)]
    assert scans == [str(bucket / "d17" / "below")]


async def test_list_objects__gone_between_the_walk_and_the_look__left_out(
    tree: TreeStorage, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (bucket / name).write_bytes(b"")
    entries = walk.entries

    def vanishing(*args: object) -> Iterable[bytes]:
        found = list(entries(*args))  # type: ignore[arg-type]
        (bucket / "b").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(walk, "entries", vanishing)
    page = await tree.list_objects(ListQuery("bucket"))
    assert [info.key for info in page.objects] == ["a", "c"]
