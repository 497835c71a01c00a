"""An upload that was cut off goes on with those parts of the server's that are these bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from aiohttp import web
from fake_rc_gateway import Rig, Seen, crc64, error, md5, xml

from gateway.client import S3Error

DATA = os.urandom(1_000_000)
PART_BYTES = 300_000
PARTS = 4


class Lister:
    """ListMultipartUploads and ListParts of the fake server's one upload, a part on each page."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.checksums = True
        self.begun = True

    def __call__(self, seen: Seen) -> web.Response | None:
        if seen.method != "GET" or "upload" not in seen.raw_path:
            return None
        if seen.raw_path.startswith("/b?uploads="):
            return self.uploads()
        after = int(seen.raw_path.partition("part-number-marker=")[2] or 0)
        return self.parts(after)

    def uploads(self) -> web.Response:
        rows = [
            ("kk", "other", "2027", ""),
            ("k", "old", "2025", ""),
            ("k", "theirs", "2027", "CRC32"),
            ("k", "up/1", "2026", "CRC64NVME"),
        ]
        shown = "".join(
            f"<Upload><Key>{key}</Key><UploadId>{one}</UploadId><Initiated>{year}-01-01</Initiated>"
            f"<ChecksumAlgorithm>{algorithm}</ChecksumAlgorithm></Upload>"
            for key, one, year, algorithm in rows
            if self.begun or key != "k"
        )
        return xml("ListMultipartUploadsResult", shown)

    def parts(self, after: int) -> web.Response:
        stored = {
            int(target.partition("partNumber=")[2].partition("&")[0]): data
            for target, data in self.rig.server.parts.items()
        }
        left = sorted(number for number in stored if number > after)
        shown = "".join(self.part(number, stored[number]) for number in left[:1])
        more = "true" if len(left) > 1 else "false"
        marker = f"<NextPartNumberMarker>{left[0]}</NextPartNumberMarker>" if left else ""
        return xml("ListPartsResult", f"<IsTruncated>{more}</IsTruncated>{marker}{shown}")

    def part(self, number: int, data: bytes) -> str:
        checksum = f"<ChecksumCRC64NVME>{crc64(data)}</ChecksumCRC64NVME>"
        return (
            f"<Part><PartNumber>{number}</PartNumber><Size>{len(data)}</Size>"
            f"<ETag>&quot;{md5(data)}&quot;</ETag>{checksum if self.checksums else ''}</Part>"
        )


@pytest.fixture
def lister(rig: Rig) -> Lister:
    rig.limits = rig.tight(part_bytes=PART_BYTES, min_part_bytes=100_000, concurrency=1)
    lister = Lister(rig)
    rig.server.hooks.append(lister)
    return lister


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_bytes(DATA)
    return path


def sent(rig: Rig) -> list[int]:
    """The numbers of the parts that were put."""
    calls = rig.server.calls("PUT /b/k?partNumber=")
    return [int(seen.raw_path.partition("partNumber=")[2].partition("&")[0]) for seen in calls]


async def cut_off(rig: Rig, source: Path, at: int = 3) -> None:
    """A put whose part `at` is refused."""
    refuse = lambda seen: (  # noqa: E731
        error(403, "AccessDenied", "no") if f"partNumber={at}&" in seen.raw_path else None
    )
    rig.server.hooks.append(refuse)
    async with rig.client(rdma="never") as client:
        with pytest.raises(S3Error, match="AccessDenied"):
            await client.put_file("b", "k", source, resume=True)
    rig.server.hooks.remove(refuse)
    assert not rig.server.calls("DELETE")
    rig.server.seen.clear()


async def put_again(rig: Rig, source: Path, **limits: int) -> None:
    async with rig.client(rdma="never", limits=rig.tight(**limits)) as client:
        done = await client.put_file("b", "k", source, resume=True)
    assert done.bytes == len(DATA)


@pytest.mark.parametrize("checksums", [True, False], ids=["crc64nvme", "md5"])
async def test_put__cut_off__sends_only_the_rest(
    rig: Rig, lister: Lister, source: Path, checksums: bool
) -> None:
    lister.begun = False
    await cut_off(rig, source)
    lister.begun, lister.checksums = True, checksums
    await put_again(rig, source)
    assert rig.server.objects["/b/k"] == DATA
    assert sent(rig) == [3, 4]
    assert not rig.server.calls("POST /b/k?uploads=")


@pytest.mark.parametrize("checksums", [True, False], ids=["crc64nvme", "md5"])
async def test_put__the_file_changed__sends_what_is_another(
    rig: Rig, lister: Lister, source: Path, checksums: bool
) -> None:
    lister.begun = False
    await cut_off(rig, source)
    with source.open("r+b") as stream:
        stream.write(b"changed")
    lister.begun, lister.checksums = True, checksums
    await put_again(rig, source)
    assert rig.server.objects["/b/k"] == b"changed" + DATA[7:]
    assert sent(rig) == [1, 3, 4]


async def test_put__other_part_size_now__keeps_that_of_the_parts_there(
    rig: Rig, lister: Lister, source: Path
) -> None:
    lister.begun = False
    await cut_off(rig, source)
    lister.begun = True
    await put_again(rig, source, part_bytes=400_000)
    assert sent(rig) == [3, 4]


@pytest.mark.parametrize(
    "limits", [{"part_bytes": 250_000}, {"min_part_bytes": 310_000, "part_bytes": 400_000}]
)
async def test_put__parts_there_are_of_no_use__all_are_sent(
    rig: Rig, lister: Lister, source: Path, limits: dict[str, int]
) -> None:
    lister.begun = False
    await cut_off(rig, source)
    lister.begun = True
    await put_again(rig, source, **limits)
    assert sent(rig) == list(range(1, -(-len(DATA) // limits["part_bytes"]) + 1))


async def test_put__nothing_was_begun__begins(rig: Rig, lister: Lister, source: Path) -> None:
    lister.begun = False
    await put_again(rig, source)
    assert sent(rig) == [1, 2, 3, 4]
    assert rig.server.calls("POST /b/k?uploads=")


async def test_put__too_large_for_a_session__the_upload_is_begun_anew(
    rig: Rig, lister: Lister, source: Path
) -> None:
    lister.begun = False
    rig.server.max_transfer_bytes = 200_000
    rig.server.connections.on = False
    async with rig.client(limits=rig.tight(part_bytes=300_000)) as client:
        await client.put_file("b", "k", source, resume=True)
    assert rig.server.objects["/b/k"] == DATA
    assert len(rig.server.calls("POST /b/k?uploads=")) == 2
    assert rig.server.calls("DELETE /b/k?uploadId=")
