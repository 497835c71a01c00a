from __future__ import annotations

import base64
import hashlib
from itertools import pairwise

import pytest
from bodies import checksum
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.s3.digest import Digester, composite_checksum, full_object_checksum
from gateway.wire.checksums import Algorithm, composite_etag

CRCS = (Algorithm.CRC32, Algorithm.CRC32C, Algorithm.CRC64NVME)


@settings(deadline=None)
@given(st.binary(max_size=5000), st.lists(st.integers(0, 5000), max_size=4))
def test_digester__any_pieces__equal_the_whole(data: bytes, cuts: list[int]) -> None:
    digester = Digester(Algorithm, sha256=True)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in pairwise(places):
        digester.update(memoryview(data)[start:end])
    assert digester.size_bytes == len(data)
    assert digester.md5 == hashlib.md5(data).digest()
    assert digester.sha256 == hashlib.sha256(data).digest()
    assert digester.checksums == {one: checksum(one, data) for one in Algorithm}


def test_digester__known_check_value__is_the_published_one() -> None:
    digester = Digester(CRCS)
    digester.update(b"123456789")  # the CRC catalogue's check input
    raw = {one: base64.b64decode(text).hex() for one, text in digester.checksums.items()}
    assert raw == {
        Algorithm.CRC32: "cbf43926",
        Algorithm.CRC32C: "e3069283",
        Algorithm.CRC64NVME: "ae8b14860a799888",
    }


def test_digester__hash_not_asked_for__is_a_callers_bug() -> None:
    digester = Digester(md5=False)
    with pytest.raises(ValueError, match="md5"):
        _ = digester.md5
    with pytest.raises(ValueError, match="sha256"):
        _ = digester.sha256


@pytest.mark.parametrize("algorithm", CRCS)
@settings(deadline=None)
@given(parts=st.lists(st.binary(max_size=300), min_size=1, max_size=6))
def test_full_object_checksum__parts__equal_the_crc_of_the_whole(
    algorithm: Algorithm, parts: list[bytes]
) -> None:
    pieces = [(checksum(algorithm, part), len(part)) for part in parts]
    assert full_object_checksum(algorithm, pieces) == checksum(algorithm, b"".join(parts))


@pytest.mark.parametrize("algorithm", [one for one in Algorithm if one != Algorithm.CRC64NVME])
def test_composite_checksum__parts__hashes_their_raw_digests(algorithm: Algorithm) -> None:
    parts = [checksum(algorithm, data) for data in (b"one", b"two", b"three")]
    raw = b"".join(base64.b64decode(part) for part in parts)
    assert composite_checksum(algorithm, parts) == f"{checksum(algorithm, raw)}-3"


def test_composite_etag__parts__is_md5_of_md5s() -> None:
    parts = [hashlib.md5(data).digest() for data in (b"one", b"two")]
    assert composite_etag(parts) == f"{hashlib.md5(b''.join(parts)).hexdigest()}-2"
