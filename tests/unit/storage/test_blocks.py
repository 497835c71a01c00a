"""Sums of blocks: whatever is rotten, and wherever, is found."""

import os
from pathlib import Path

import pytest
from awscrt import checksums as crt

from gateway.storage import blocks
from gateway.storage.blocks import BLOCK_BYTES, SUM_BYTES, RottenError

SIZES = (0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 17 * BLOCK_BYTES + 5)


@pytest.mark.parametrize("size", SIZES)
def test_with_tail__any_size__comes_back_with_a_sum_for_each_block(
    size: int, tmp_path: Path
) -> None:
    data = os.urandom(size)
    stored = blocks.with_tail(data)
    assert len(stored) == size + blocks.tail_bytes(size)
    assert blocks.without_tail(stored, size) == data
    path = tmp_path / "file"
    path.write_bytes(stored)
    fd = os.open(path, os.O_RDONLY)
    assert blocks.file_sums(fd, size) == stored[size:]
    os.close(fd)
    assert stored[size : size + SUM_BYTES] == (
        crt.crc64nvme(data[:BLOCK_BYTES]).to_bytes(8, "big") if data else b""
    )


@pytest.mark.parametrize("at", [0, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 6])
def test_without_tail__one_bit_flipped__names_the_block(at: int) -> None:
    size = 2 * BLOCK_BYTES + 7
    stored = bytearray(blocks.with_tail(os.urandom(size)))
    stored[at] ^= 1
    with pytest.raises(RottenError) as caught:
        blocks.without_tail(bytes(stored), size)
    assert caught.value.offset_bytes == at // BLOCK_BYTES * BLOCK_BYTES


def test_without_tail__a_sum_is_rotten_or_missing__found() -> None:
    stored = bytearray(blocks.with_tail(b"data"))
    with pytest.raises(RottenError):
        blocks.without_tail(bytes(stored[:-SUM_BYTES]), 4)
    stored[-1] ^= 1
    with pytest.raises(RottenError):
        blocks.without_tail(bytes(stored), 4)


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (0, 1, (0, BLOCK_BYTES)),
        (BLOCK_BYTES - 1, 2, (0, 2 * BLOCK_BYTES)),
        (BLOCK_BYTES, BLOCK_BYTES, (BLOCK_BYTES, BLOCK_BYTES)),
        (3 * BLOCK_BYTES, 5, (3 * BLOCK_BYTES, 5)),
        (3 * BLOCK_BYTES + 1, 2, (3 * BLOCK_BYTES, 5)),
    ],
)
def test_covering__a_range__whole_blocks_inside_the_object(
    offset: int, length: int, expected: tuple[int, int]
) -> None:
    assert blocks.covering(offset, length, 3 * BLOCK_BYTES + 5) == expected


def test_file_sums__file_ends_early__os_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"short")
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(OSError, match="ends at 5"):
        blocks.file_sums(fd, 6)
    os.close(fd)
