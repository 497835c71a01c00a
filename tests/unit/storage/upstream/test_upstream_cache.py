"""The read cache, filled by a service that counts what it is asked."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import BusyError, InternalError
from gateway.storage.port import ObjectAttributes, ObjectInfo
from gateway.storage.upstream.cache import ReadCache
from gateway.storage.upstream.ranges import Sink
from gateway.wire.extent import Extent

SIZE = 10_000
INFO = ObjectInfo("bucket", "key", SIZE, "etag", 0, ObjectAttributes())


class Source:
    """An object's bytes, by ranges."""

    def __init__(self) -> None:
        self.data = os.urandom(SIZE)
        self.asked: list[Extent] = []

    async def fetch(self, extent: Extent, sink: Sink) -> None:
        self.asked.append(extent)
        await asyncio.sleep(0)
        half = extent.offset_bytes + extent.length_bytes // 2
        sink(self.data[extent.offset_bytes : half])
        sink(self.data[half : extent.end_bytes])


@pytest.fixture
def source() -> Source:
    return Source()


def cache(directory: Path, limit_bytes: int = 4 * SIZE) -> ReadCache:
    made = ReadCache(directory, limit_bytes, segment_bytes=4096, concurrency=2)
    made.start()
    return made


def files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def read(kept: ReadCache, info: ObjectInfo, source: Source) -> bytes:
    reader = await kept.open(info, source.fetch)
    try:
        (extent,) = reader.extents(1, SIZE - 1)
        assert os.pread(extent.fd, extent.length_bytes, extent.offset_bytes) == source.data[1:]
        return await reader.read(0, SIZE)
    finally:
        await reader.close()
        await reader.close()


async def test_open__again_and_by_many_at_once__fetched_once(
    tmp_path: Path, source: Source
) -> None:
    kept = cache(tmp_path)
    found = await asyncio.gather(*(read(kept, INFO, source) for _ in range(8)))
    assert found == [source.data] * 8 == [await read(kept, INFO, source)] * 8
    assert [extent.length_bytes for extent in source.asked] == [4096, 4096, 1808]


async def test_open__another_etag_or_version__fetched_anew(tmp_path: Path, source: Source) -> None:
    kept = cache(tmp_path)
    for info in (INFO, replace(INFO, etag="other"), replace(INFO, version_id="v")):
        await read(kept, info, source)
    assert len(source.asked) == 9


async def test_open__more_than_it_holds__the_longest_unused_goes(
    tmp_path: Path, source: Source
) -> None:
    kept = cache(tmp_path)
    infos = [replace(INFO, key=str(number)) for number in range(5)]
    for info in infos[:4]:
        await read(kept, info, source)
    await read(kept, infos[0], source)
    await read(kept, infos[4], source)
    asked = len(source.asked)
    await read(kept, infos[0], source)
    assert len(source.asked) == asked
    await read(kept, infos[1], source)
    assert len(source.asked) == asked + 3
    assert len(files(tmp_path)) <= 4


async def test_reader__its_file_goes_meanwhile__reads_on(tmp_path: Path, source: Source) -> None:
    kept = cache(tmp_path)
    reader = await kept.open(INFO, source.fetch)
    for file in files(tmp_path):
        os.unlink(file)
    assert await reader.read(0, SIZE) == source.data
    await reader.close()
    assert await read(kept, INFO, source) == source.data


async def test_start__what_an_earlier_process_left__is_used_and_the_unfinished_goes(
    tmp_path: Path, source: Source
) -> None:
    await read(cache(tmp_path), INFO, source)
    (tmp_path / "x.part").write_bytes(b"half")
    asked = len(source.asked)
    assert await read(cache(tmp_path), INFO, source) == source.data
    assert len(source.asked) == asked
    assert not (tmp_path / "x.part").exists()


async def test_open__fetch_fails__raises_and_leaves_nothing(tmp_path: Path) -> None:
    async def fail(_: Extent, sink: Sink) -> None:
        sink(b"some")
        raise BusyError("replaced")

    kept = cache(tmp_path)
    with pytest.raises(BusyError):
        await kept.open(INFO, fail)
    assert files(tmp_path) == []


async def test_read__file_was_cut__internal_error(tmp_path: Path, source: Source) -> None:
    kept = cache(tmp_path)
    reader = await kept.open(INFO, source.fetch)
    (file,) = files(tmp_path)
    os.truncate(file, 10)
    with pytest.raises(InternalError) as caught:
        await reader.read(0, SIZE)
    assert "empty the cache" in caught.value.cause
    await reader.close()


def test_takes__what_would_empty_it__not(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    assert kept.takes(INFO)
    assert not kept.takes(replace(INFO, size_bytes=SIZE + 1))
    assert not kept.takes(replace(INFO, size_bytes=0))


def test_start__directory_can_t_be__internal_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InternalError):
        cache(tmp_path / "file")
