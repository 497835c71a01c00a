"""No path, link or race leads out of a bucket, and no file outside is read, changed or named."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from storing import get, put, raises

from gateway.errors import ClientError, GatewayError, S3Code
from gateway.storage.port import ListQuery
from gateway.storage.tree.beneath import open_beneath
from gateway.storage.tree.storage import TreeStorage
from gateway.wire.conditional import Conditions

LIBC = ctypes.CDLL(None)
AT_FDCWD, RENAME_EXCHANGE = -100, 2
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What must not be reached."""
    made = tmp_path / "outside"
    made.mkdir()
    (made / "secret").write_bytes(b"secret")
    return made


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    ("path", "number"),
    [
        (b"../outside/secret", errno.EXDEV),
        (b"sub/../../outside/secret", errno.EXDEV),
        (b"/etc/passwd", errno.EXDEV),
        (b"absent", errno.ENOENT),
        (b"file/below", errno.ENOTDIR),
    ],
)
def test_open_beneath__path_leaves_or_is_not_there__the_kernels_error(
    tmp_path: Path, outside: Path, path: bytes, number: int, follow: bool
) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "file").write_bytes(b"")
    with opened(tmp_path / "in") as fd, pytest.raises(OSError) as caught:  # noqa: PT011
        open_beneath(fd, path, os.O_RDONLY, follow=follow)
    assert caught.value.errno == number


def test_open_beneath__links__only_where_wanted_and_inside(tmp_path: Path, outside: Path) -> None:
    base = tmp_path / "in"
    (base / "sub").mkdir(parents=True)
    (base / "sub" / "file").write_bytes(b"inside")
    (base / "inner").symlink_to("sub/file")
    (base / "outer").symlink_to(outside / "secret")
    (base / "proc").symlink_to("/proc/self/fd/0")
    with opened(base) as fd:
        for name in (b"inner", b"outer", b"proc"):
            with pytest.raises(OSError, match="symbolic links"):
                open_beneath(fd, name, os.O_RDONLY)
        for name in (b"outer", b"proc"):
            with pytest.raises(OSError, match="cross-device"):
                open_beneath(fd, name, os.O_RDONLY, follow=True)
        with open(open_beneath(fd, b"inner", os.O_RDONLY, follow=True), "rb") as file:
            assert file.read() == b"inside"


async def attempts(tree: TreeStorage, key: str) -> list[ClientError]:
    """What each operation on a key is refused with."""
    calls = (
        tree.open_object("bucket", key, None),
        tree.head_object("bucket", key, None),
        put(tree, key, b"overwritten"),
        put(tree, key, b"overwritten", conditions=Conditions(if_none_match=("*",))),
        tree.update_object("bucket", key, None, lambda info: info.attributes),
        tree.delete_object("bucket", key, None),
    )
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, ClientError) for each in found), found
    return [each for each in found if isinstance(each, ClientError)]


@pytest.mark.parametrize("follow", [False, True])
async def test_link_to_the_outside__every_operation__denied_and_untouched(
    make_tree: object, tree: TreeStorage, bucket: Path, outside: Path, follow: bool
) -> None:
    if follow:
        tree = make_tree(follow_symlinks=True)  # type: ignore[operator]
        await tree.start()
    (bucket / "dir").symlink_to(outside)
    (bucket / "file").symlink_to(outside / "secret")
    (bucket / "up").symlink_to("..")
    for key in ("dir/secret", "dir/new", "dir/new/below", "file", "up/bucket/x"):
        for refusal in await attempts(tree, key):
            assert refusal.code is S3Code.ACCESS_DENIED
            assert "link" in refusal.message
    for prefix in ("", "dir/", "up/"):
        for delimiter in ("", "/"):
            page = await tree.list_objects(ListQuery("bucket", prefix, delimiter))
            assert (page.objects, page.prefixes) == ((), ())
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"secret": b"secret"}  # noqa: ASYNC240


async def test_delete_bucket__a_link_in_it__not_empty_and_the_outside_is_whole(
    tree: TreeStorage, bucket: Path, outside: Path
) -> None:
    (bucket / "dir").symlink_to(outside)
    with raises(S3Code.BUCKET_NOT_EMPTY) as caught:
        await tree.delete_bucket("bucket")
    assert "no object" in caught.value.message
    assert os.listdir(outside) == ["secret"]


async def test_bucket__is_a_link__none_unless_followed_and_inside(
    tree: TreeStorage, make_tree: object, root: Path, outside: Path
) -> None:
    following = make_tree(follow_symlinks=True)  # type: ignore[operator]
    await following.start()
    (root / "inner").symlink_to("bucket")
    (root / "outer").symlink_to(outside)
    await put(tree, "k", b"data")
    for storage, name in ((tree, "inner"), (tree, "outer"), (following, "outer")):
        with raises(S3Code.NO_SUCH_BUCKET):
            await storage.head_bucket(name)
    assert await get(following, "k", bucket="inner") == b"data"
    with raises(S3Code.BUCKET_ALREADY_EXISTS):
        await tree.create_bucket((await tree.head_bucket("bucket")).__class__("outer", 0, "x"))


async def test_followed_links__inside_the_bucket__are_files_and_directories(
    make_tree: object, tree: TreeStorage, bucket: Path
) -> None:
    following = make_tree(follow_symlinks=True)  # type: ignore[operator]
    await following.start()
    await put(tree, "real/file", b"data")
    (bucket / "alias").symlink_to("real")
    (bucket / "direct").symlink_to("real/file")
    (bucket / "real" / "loop").symlink_to("..")
    (bucket / "dangling").symlink_to("nowhere")
    assert await get(following, "alias/file") == b"data"
    page = await following.list_objects(ListQuery("bucket"))
    assert [info.key for info in page.objects] == ["alias/file", "direct", "real/file"]
    await put(following, "direct", b"its own")
    assert await get(tree, "real/file") == b"data"
    assert await get(tree, "direct") == b"its own"


def exchange(one: Path, other: Path) -> None:
    """renameat2(2) with RENAME_EXCHANGE: at every moment both names are there."""
    assert LIBC.renameat2(AT_FDCWD, bytes(one), AT_FDCWD, bytes(other), RENAME_EXCHANGE) == 0


async def test_race__directory_swapped_for_a_link_all_the_time__nothing_gets_out(
    tree: TreeStorage, bucket: Path, outside: Path
) -> None:
    """An attacker who may write in the bucket exchanges a directory and a link to the outside."""
    (bucket / "d").mkdir()
    (bucket / "d" / "secret").write_bytes(b"inside")
    (bucket / "link").symlink_to(outside)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            exchange(bucket / "d", bucket / "link")

    attacker = threading.Thread(target=swap)
    attacker.start()
    try:
        outcomes = [await one_round(tree, number) for number in range(150)]
    finally:
        over.set()
        attacker.join()
    assert any("done" in outcome for outcome in outcomes)
    assert any("refused" in outcome for outcome in outcomes)
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"secret": b"secret"}  # noqa: ASYNC240


async def one_round(tree: TreeStorage, number: int) -> set[str]:
    """One of each operation below the directory that is swapped."""

    async def read() -> None:
        assert await get(tree, "d/secret") == b"inside"

    async def listed() -> None:
        page = await tree.list_objects(ListQuery("bucket", "d/"))
        for info in page.objects:
            assert info.key != "d/secret" or info.size_bytes == len(b"inside")

    calls = (
        put(tree, f"d/new{number % 3}", b"new"),
        put(tree, f"d/sub{number % 3}/new", b"new"),
        tree.delete_object("bucket", f"d/new{number % 2}", None),
        read(),
        listed(),
    )
    outcomes = set()
    for found in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(found, GatewayError):
            assert found.code.status < 500, found
            outcomes.add("refused")
        else:
            assert not isinstance(found, BaseException), found
            outcomes.add("done")
    return outcomes
