"""Against the published check value of CRC-64/NVME (reveng's catalogue) and a bitwise oracle."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.client import checksum

POLYNOMIAL = 0x9A6C9329AC4BC9B5  # AD93D23594C93659 reflected


def bitwise(data: bytes) -> int:
    crc = 2**64 - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc ^ 2**64 - 1


async def test_crc64nvme__check_string__is_the_catalogues() -> None:
    assert await checksum.crc64nvme(memoryview(b"123456789")) == 0xAE8B14860A799888


async def test_crc64nvme__long_enough_for_a_thread__is_the_same() -> None:
    data = bytes(range(256)) * 2048
    assert await checksum.crc64nvme(memoryview(data)) == bitwise(data)


@given(st.lists(st.binary(max_size=64), max_size=5))
def test_joined__parts__give_the_checksum_of_the_whole(parts: list[bytes]) -> None:
    assert checksum.joined((bitwise(p), len(p)) for p in parts) == bitwise(b"".join(parts))


@given(st.integers(0, 2**64 - 1))
def test_text__there_and_back__is_the_same(value: int) -> None:
    text = checksum.to_text(value)
    assert base64.b64decode(text) == value.to_bytes(8, "big")
    assert checksum.from_text(text) == value


@pytest.mark.parametrize("text", [None, "", "AAAA", "not base64!!", "é"])
def test_from_text__not_a_checksum__is_none(text: str | None) -> None:
    assert checksum.from_text(text) is None
