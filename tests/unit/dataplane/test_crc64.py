"""The C core's CRC-64/NVME beside awscrt's."""

from __future__ import annotations

from awscrt import checksums as crt
from hypothesis import example, given
from hypothesis import strategies as st

from gateway import _dataplane

CHECK_VALUE = 0xAE8B14860A799888
"""Of b"123456789": the catalogue of parametrised CRC algorithms, CRC-64/NVME."""


def crc64nvme(data: bytes, before: int = 0) -> int:
    return int(_dataplane.lib.dp_crc64nvme(before, data, len(data)))


def test_crc64nvme__digits__check_value() -> None:
    assert crc64nvme(b"123456789") == CHECK_VALUE


@given(st.binary(max_size=2000))
@example(bytes(range(256)) * 4096)
def test_crc64nvme__any_bytes__as_awscrt(data: bytes) -> None:
    assert crc64nvme(data) == crt.crc64nvme(data)


@given(st.lists(st.binary(max_size=500), max_size=5))
def test_crc64nvme__stretches__as_awscrt_of_all(stretches: list[bytes]) -> None:
    crc = 0
    for stretch in stretches:
        crc = crc64nvme(stretch, crc)
    assert crc == crt.crc64nvme(b"".join(stretches))


@given(st.binary(max_size=500), st.integers(0, 2**64 - 1))
def test_crc64nvme__any_crc_before__as_awscrt(data: bytes, before: int) -> None:
    assert crc64nvme(data, before) == crt.crc64nvme(data, before)
