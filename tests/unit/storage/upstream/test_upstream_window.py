"""A file in memory that is filled at its end and emptied behind."""

import os
from collections.abc import Iterator
from hashlib import md5

import pytest

from gateway.config.setting import MIB
from gateway.storage.upstream.window import Window
from gateway.wire.extent import Extent


@pytest.fixture
def window() -> Iterator[Window]:
    made = Window()
    yield made
    made.close()


def held_bytes(window: Window) -> int:
    return os.fstat(window.fd).st_blocks * 512


def test_put__pieces__read_where_they_belong_and_hashed(window: Window) -> None:
    data = os.urandom(MIB)
    window.put(memoryview(data)[:1000], 0)
    window.put(memoryview(data)[1000:], 1000)
    assert os.pread(window.fd, MIB, 0) == data
    assert window.md5(Extent(5, 700_000)) == md5(data[5:700_005]).digest()


def test_free__extent__memory_goes_and_length_stays(window: Window) -> None:
    window.put(memoryview(bytes(4 * MIB)), 0)
    window.free(Extent(MIB, 2 * MIB))
    assert held_bytes(window) == 2 * MIB
    assert os.fstat(window.fd).st_size == 4 * MIB


def test_free_up_to__anywhere__whole_pages_before_it_go(window: Window) -> None:
    window.put(memoryview(b"x" * MIB), 0)
    for end in (1, 4095, 10_000, 10_000, MIB - 1):
        window.free_up_to(end)
        assert held_bytes(window) == MIB - end // 4096 * 4096
        assert os.pread(window.fd, MIB, end) == b"x" * (MIB - end)


def test_close__twice__nothing_is_freed_of_a_closed_one(window: Window) -> None:
    window.close()
    window.close()
    window.free_up_to(MIB)
