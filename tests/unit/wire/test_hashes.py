"""Running hashes against the standard library's, and CRCs of parts against those of the whole."""

import base64
import hashlib
import os
import zlib

import pytest
from awscrt import checksums as crt

from gateway.wire.checksums import Algorithm
from gateway.wire.hashes import COMBINE, crc64nvme, encode, new_hash

FIRST, SECOND = os.urandom(70_001), os.urandom(13)
WHOLE = FIRST + SECOND
EXPECTED = {
    Algorithm.CRC32: zlib.crc32(WHOLE).to_bytes(4, "big"),
    Algorithm.CRC32C: crt.crc32c(WHOLE).to_bytes(4, "big"),
    Algorithm.CRC64NVME: crt.crc64nvme(WHOLE).to_bytes(8, "big"),
    Algorithm.SHA1: hashlib.sha1(WHOLE).digest(),
    Algorithm.SHA256: hashlib.sha256(WHOLE).digest(),
}


@pytest.mark.parametrize("algorithm", Algorithm)
def test_new_hash__in_two_runs__as_of_the_whole(algorithm: Algorithm) -> None:
    running = new_hash(algorithm)
    running.update(FIRST)
    running.update(memoryview(SECOND))
    assert running.digest() == EXPECTED[algorithm]
    assert len(running.digest()) == algorithm.length_bytes


@pytest.mark.parametrize("algorithm", COMBINE)
def test_combine__two_runs__as_of_the_whole(algorithm: Algorithm) -> None:
    def crc(data: bytes) -> int:
        running = new_hash(algorithm)
        running.update(data)
        return int.from_bytes(running.digest(), "big")

    whole = COMBINE[algorithm](crc(FIRST), crc(SECOND), len(SECOND))
    assert whole.to_bytes(algorithm.length_bytes, "big") == EXPECTED[algorithm]


def test_crc64nvme__check_value_of_the_catalogue() -> None:
    """https://reveng.sourceforge.io/crc-catalogue/all.htm#crc.cat.crc-64-nvme"""
    assert crc64nvme(b"123456789") == 0xAE8B14860A799888


def test_encode__digest__base64() -> None:
    assert encode(b"\0\1\2") == base64.b64encode(b"\0\1\2").decode()
