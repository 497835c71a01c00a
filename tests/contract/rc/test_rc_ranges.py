"""Ranged GETs at every boundary that the path of the bytes has: each is the slice, and no more."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from rc_client import RcClient
from rc_fabrics import EMULATED

KIB, MIB = 1024, 1024 * 1024
MTUS, PAGE, SLOT, WRITE, WINDOW = (KIB, 4 * KIB), 4 * KIB, MIB, 8 * MIB, 32 * MIB
PART = 5 * MIB  # the shortest that a part may be
WHOLE_BYTES = WINDOW + SLOT + 5  # two windows, the second of two slots
PARTS_BYTES = (PART + 1, PART, 3)
STEPS = (*MTUS, SLOT, WRITE, WINDOW)
Range = tuple[str, int, int]  # as the header says it, and the first and last byte that it means


def pieces(size: int, boundaries: tuple[int, ...]) -> Iterator[Range]:
    """Short ranges on both sides of each boundary, and across it."""
    for place in (0, *boundaries, size):
        for first in range(max(0, place - 1), min(size, place + 2)):
            yield f"{first}-{first}", first, first
        first, last = max(0, place - 3), min(size - 1, place + 2)
        yield f"{first}-{last}", first, last
        yield f"{first}-", first, size - 1
        if size > place:
            yield f"-{size - place}", place, size - 1


def lengths(size: int, steps: tuple[int, ...]) -> Iterator[Range]:
    """As long as each step, one byte less and one more, from two beginnings.

    The gateway cuts a range into windows, slots and packets from where it begins.
    """
    for step in steps:
        for length in (step - 1, step, step + 1):
            for first in (0, 1) if step < WINDOW else (1,):
                yield f"{first}-{first + length - 1}", first, first + length - 1
    yield f"0-{size + 99}", 0, size - 1
    yield f"-{size + 99}", 0, size - 1


async def assert_ranges(peer: RcClient, path: str, data: bytes, ranges: Iterator[Range]) -> None:
    for header, first, last in dict.fromkeys(ranges):
        target = bytearray(last + 1 - first)
        answer = await peer.get(path, target, {"range": f"bytes={header}"})
        assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (206, "206"), header
        assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(data)}"
        assert answer.headers["x-amz-rdma-bytes-transferred"] == str(last + 1 - first)
        assert target == data[first : last + 1], header


@pytest.fixture(scope="module")
def whole(s3: Any) -> bytes:
    data = random.Random(1).randbytes(WHOLE_BYTES)
    s3.put_object(Bucket="connected", Key="whole", Body=data)
    return data


@pytest.fixture(scope="module")
def in_parts(s3: Any) -> bytes:
    data = [random.Random(size).randbytes(size) for size in PARTS_BYTES]
    where = {"Bucket": "connected", "Key": "in-parts"}
    upload = s3.create_multipart_upload(**where)["UploadId"]
    listed = [
        {
            "PartNumber": number,
            "ETag": s3.upload_part(**where, UploadId=upload, PartNumber=number, Body=part)["ETag"],
        }
        for number, part in enumerate(data, 1)
    ]
    s3.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": listed})
    return b"".join(data)


async def test_range__at_every_boundary_of_an_object__is_the_slice(
    peer: RcClient, whole: bytes
) -> None:
    boundaries = (*MTUS, PAGE, SLOT, 2 * SLOT, WRITE, WINDOW, WINDOW + SLOT)
    short = (one for one in pieces(len(whole), boundaries) if one[2] - one[1] < 100)
    await assert_ranges(peer, "/connected/whole", whole, short)


async def test_range__of_every_length_that_is_cut__is_the_slice(
    peer: RcClient, whole: bytes
) -> None:
    steps = STEPS[:-1] if EMULATED else STEPS
    await assert_ranges(peer, "/connected/whole", whole, lengths(len(whole), steps))


async def test_range__at_every_boundary_of_parts__is_the_slice(
    peer: RcClient, in_parts: bytes
) -> None:
    first, second, _ = PARTS_BYTES
    boundaries = (first, first + second)
    await assert_ranges(peer, "/connected/in-parts", in_parts, pieces(len(in_parts), boundaries))


@pytest.mark.parametrize("size", [0, WHOLE_BYTES])
@pytest.mark.parametrize("beyond", [0, 1, 10**15])
async def test_range__beyond_the_end__is_not_satisfiable(
    peer: RcClient, s3: Any, whole: bytes, size: int, beyond: int
) -> None:
    s3.put_object(Bucket="connected", Key="void", Body=b"")
    path = "/connected/whole" if size else "/connected/void"
    answer = await peer.get(path, bytearray(8), {"range": f"bytes={size + beyond}-"})
    assert (answer.status, answer.code) == (416, "InvalidRange")
    assert "x-amz-rdma-reply" not in answer.headers
