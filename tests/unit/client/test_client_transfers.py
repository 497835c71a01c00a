"""Whole transfers: parts, buffers, files, and the choice of the way."""

from __future__ import annotations

import array
import mmap
import os
from pathlib import Path

import pytest
from fake_rc_gateway import Rig, Seen, error, md5

from gateway.client import ConnectError, S3Error, TransferError, TransferPath, UnsupportedError
from gateway.config import MIB

DATA = bytes(range(256)) * 4096  # 1 MiB
SMALL = DATA[:1000]


@pytest.fixture(params=["http", "sessions", "connections"])
def mode(request: pytest.FixtureRequest, rig: Rig) -> str:
    """How the bytes are to go: RDMA in both of its forms, and plain HTTP."""
    rig.server.connections.on = request.param == "connections"
    return "never" if request.param == "http" else "require"


def sessions(rig: Rig, mode: str) -> bool:
    return mode == "require" and not rig.server.connections.on


async def test_put__larger_than_a_part__is_a_multipart_upload(rig: Rig, mode: str) -> None:
    limits = rig.tight(part_bytes=300_000, concurrency=2)
    told: list[tuple[int, int]] = []
    async with rig.client(rdma=mode, limits=limits) as client:
        done = await client.put_from(
            "b",
            "k",
            DATA,
            metadata={"a": "1"},
            content_type="text/x",
            progress=lambda *row: told.append(row),
        )
    assert rig.server.objects["/b/k"] == DATA
    assert [total for _, total in told] == [len(DATA)] * 5
    assert sorted(done for done, _ in told) == [0, 148_576, 300_000, 300_000, 300_000]
    assert done.etag.endswith("-n")
    create = rig.server.calls("POST /b/k?uploads=")[0].headers
    assert (create["x-amz-meta-a"], create["content-type"]) == ("1", "text/x")
    assert len(rig.fabric.lanes) == (4 if sessions(rig, mode) else 0)
    assert len(rig.fabric.registrations) == (1 if rig.server.connections.on else 0)


async def test_put__a_part_fails__the_upload_is_aborted(rig: Rig, mode: str) -> None:
    def refuse(seen: Seen) -> object:
        where = seen.headers.get("x-amz-rdma-target", seen.raw_path)
        return error(403, "AccessDenied", "no") if "partNumber=2" in where else None

    rig.server.hooks.append(refuse)  # type: ignore[arg-type]
    async with rig.client(rdma=mode, limits=rig.tight(part_bytes=300_000)) as client:
        with pytest.raises(S3Error, match="AccessDenied"):
            await client.put_from("b", "k", DATA)
    assert rig.server.calls("DELETE /b/k?uploadId=up%2F1")
    assert rig.server.objects == {}


async def test_put__complete_says_error_under_200__is_an_error(rig: Rig) -> None:
    rig.server.hooks.append(
        lambda seen: error(200, "InternalError", "later") if "?uploadId=" in seen.raw_path else None
    )
    async with rig.client(limits=rig.tight(part_bytes=300_000)) as client:
        with pytest.raises(S3Error, match="InternalError"):
            await client.put_from("b", "k", DATA)


async def test_put__too_large_for_a_session__uses_smaller_parts(rig: Rig) -> None:
    rig.server.max_transfer_bytes = 300_000
    limits = rig.tight(part_bytes=MIB, min_part_bytes=100_000)
    async with rig.client(limits=limits) as client:
        done = await client.put_from("b", "k", DATA)
    assert done.path is TransferPath.RDMA
    assert rig.server.objects["/b/k"] == DATA
    assert len(rig.server.parts) == 4


async def test_put__no_part_fits_a_session__goes_by_http(rig: Rig) -> None:
    rig.server.max_transfer_bytes = 300_000
    async with rig.client(limits=rig.tight(min_part_bytes=400_000)) as client:
        done = await client.put_from("b", "k", DATA)
    assert (done.path, rig.server.objects["/b/k"]) == (TransferPath.HTTP, DATA)
    assert "use multipart upload" in str(done.reason)


async def test_get__larger_than_a_part__is_ranges_of_one_version(rig: Rig, mode: str) -> None:
    rig.server.objects["/b/k"] = DATA
    buffer = bytearray(len(DATA))
    async with rig.client(rdma=mode, limits=rig.tight(part_bytes=300_000)) as client:
        done = await client.get_into("b", "k", buffer)
    assert buffer == DATA
    assert done.etag == md5(DATA)
    step = "POST /.hipobj-rc/prepare" if sessions(rig, mode) else "GET"
    ranges = rig.server.calls(step)
    assert len(ranges) == 4
    assert {seen.headers["if-match"] for seen in ranges} == {f'"{md5(DATA)}"'}


async def test_get__object_replaced_meanwhile__says_so(rig: Rig) -> None:
    rig.server.objects["/b/k"] = SMALL

    def replace_it(seen: Seen) -> None:
        if seen.method == "GET":
            rig.server.objects["/b/k"] = SMALL[::-1]

    rig.server.hooks.append(replace_it)
    async with rig.client(rdma="never") as client:
        with pytest.raises(TransferError, match="replaced"):
            await client.get_into("b", "k", bytearray(1000))


@pytest.mark.parametrize("length", [900, 1100])
async def test_get__body_of_another_length__is_no_success(rig: Rig, length: int) -> None:
    rig.server.objects["/b/k"] = bytes(length)
    rig.server.http_get = lambda seen, data: __import__("aiohttp").web.Response(body=data)  # type: ignore[method-assign]
    async with rig.client(rdma="never") as client:
        with pytest.raises(TransferError, match="bytes"):
            await client.get_into("b", "k", bytearray(1000), length=1000)


async def test_empty_object__either_way__needs_no_session(rig: Rig) -> None:
    async with rig.client(rdma="require") as client:
        put = await client.put_from("b", "k", b"")
        got = await client.get_into("b", "k", bytearray(0))
    assert rig.server.objects == {"/b/k": b""}
    assert (put.bytes, got.bytes) == (0, 0)
    assert put.reason == got.reason == "there are no bytes to move"


async def test_device__none_on_this_host__goes_by_http_and_names_the_remedy(rig: Rig) -> None:
    async with rig.client(device=False) as client:
        done = await client.put_from("b", "k", SMALL)
    assert done.path is TransferPath.HTTP
    assert "modprobe rdma_rxe" in str(done.reason)


async def test_device__none_but_required__fails_before_anything_is_sent(rig: Rig) -> None:
    async with rig.client(device=False, rdma="require") as client:
        with pytest.raises(UnsupportedError, match="modprobe rdma_rxe"):
            await client.put_from("b", "k", SMALL)
    assert rig.server.seen == []


async def test_fabric__at_the_end__is_closed(rig: Rig) -> None:
    async with rig.client() as client:
        await client.put_from("b", "k", SMALL)
    assert rig.fabric.closed


@pytest.mark.parametrize(
    "buffer",
    [
        bytearray(1024),
        memoryview(bytearray(1024)),
        array.array("d", bytes(1024)),
        memoryview(bytearray(1024)).cast("B", shape=[32, 32]),
        mmap.mmap(-1, 1024),
    ],
    ids=["bytearray", "memoryview", "doubles", "matrix", "mmap"],
)
async def test_buffer__of_any_kind__is_filled_in_place(rig: Rig, buffer: object) -> None:
    rig.server.objects["/b/k"] = DATA[:1024]
    async with rig.client() as client:
        await client.get_into("b", "k", buffer)  # type: ignore[arg-type]
        await client.put_from("b", "copy", buffer)  # type: ignore[arg-type]
    assert memoryview(buffer).tobytes() == DATA[:1024]  # type: ignore[arg-type]
    assert rig.server.objects["/b/copy"] == DATA[:1024]


@pytest.mark.parametrize(
    ("buffer", "text"),
    [
        (b"read-only", "read-only"),
        (memoryview(bytearray(64))[::2], "contiguous"),
        (bytearray(999), "999 bytes and 1000"),
    ],
)
async def test_buffer__that_cannot_take_it__is_refused(rig: Rig, buffer: object, text: str) -> None:
    rig.server.objects["/b/k"] = SMALL
    async with rig.client() as client:
        with pytest.raises(ValueError, match=text):
            await client.get_into("b", "k", buffer)  # type: ignore[arg-type]


async def test_range__beyond_the_object__is_invalid(rig: Rig) -> None:
    rig.server.objects["/b/k"] = SMALL
    async with rig.client() as client:
        with pytest.raises(S3Error, match="InvalidRange"):
            await client.get_into("b", "k", bytearray(10), offset=1001)
        with pytest.raises(ValueError, match="negative"):
            await client.get_into("b", "k", bytearray(10), offset=-1)


async def test_file__there_and_back__is_the_same(rig: Rig, mode: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(DATA)
    async with rig.client(rdma=mode, limits=rig.tight(part_bytes=300_000, concurrency=2)) as client:
        put = await client.put_file("b", "k", tmp_path / "in")
        got = await client.get_file("b", "k", tmp_path / "out")
    assert put.bytes == got.bytes == len(DATA)
    assert (tmp_path / "out").read_bytes() == DATA
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


async def test_get_file__fails__leaves_the_old_file_and_no_other(rig: Rig, tmp_path: Path) -> None:
    rig.server.objects["/b/k"] = SMALL
    rig.server.flip_byte = True
    target = tmp_path / "out"
    target.write_text("old")
    async with rig.client() as client:
        with pytest.raises(TransferError, match="CRC64NVME"):
            await client.get_file("b", "k", target)
    assert (os.listdir(tmp_path), target.read_text()) == (["out"], "old")


async def test_get_file__over_a_device__is_refused(rig: Rig) -> None:
    rig.server.objects["/b/k"] = SMALL
    async with rig.client() as client:
        with pytest.raises(ValueError, match="not a regular file"):
            await client.get_file("b", "k", "/dev/null")


async def test_put_file__not_a_file__is_refused(rig: Rig, tmp_path: Path) -> None:
    async with rig.client() as client:
        with pytest.raises(ValueError, match="not a regular file"):
            await client.put_file("b", "k", tmp_path)


async def test_endpoint__nobody_listens__is_a_connect_error(rig: Rig) -> None:
    rig.url = "http://127.0.0.1:1"
    async with rig.client(rdma="never") as client:
        with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
            await client.head("b", "k")


async def test_limits__a_part_longer_than_a_session__are_refused(rig: Rig) -> None:
    with pytest.raises(ValueError, match="2147483647"):
        rig.client(limits=rig.tight(part_bytes=2**31))


async def test_reply__endless__is_cut_off(rig: Rig) -> None:
    rig.server.hooks.append(lambda _seen: error(400, "X", "x" * 5000))
    async with rig.client(rdma="never", limits=rig.tight(max_reply_bytes=1000)) as client:
        with pytest.raises(ConnectError, match="more than 1000 bytes"):
            await client.list_buckets()


async def test_put_file__cut_short_meanwhile__is_no_success(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(DATA)

    def cut(seen: Seen) -> None:
        os.truncate(path, 400_000)

    rig.server.hooks.append(cut)
    limits = rig.tight(part_bytes=300_000, concurrency=1)
    async with rig.client(rdma="never", limits=limits) as client:
        with pytest.raises(TransferError, match="shorter"):
            await client.put_file("b", "k", path)
    assert rig.server.objects == {}
