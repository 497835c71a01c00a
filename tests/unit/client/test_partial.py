"""A download that was cut off goes on from what is there, and from nothing that is not."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_rc_gateway import Rig, Seen, error

from gateway.client import S3Error, TransferError
from gateway.client.partial import Ledger

DATA = os.urandom(1_000_000)
PART_BYTES = 300_000
PARTS = 4


@pytest.fixture
def rig(rig: Rig) -> Rig:
    rig.server.objects["/b/k"] = DATA
    rig.limits = rig.tight(part_bytes=PART_BYTES, concurrency=1)
    return rig


def hidden(directory: Path, suffix: str) -> Path:
    (found,) = directory.glob(f".s3rdma-*.{suffix}")
    return found


def fetched(rig: Rig) -> list[str]:
    return [seen.headers["range"] for seen in rig.server.calls("GET")]


async def cut_off(rig: Rig, target: Path, after: int = 2) -> None:
    """A get that fails when it asks for one part more than `after`."""
    before = len(rig.server.calls("GET"))

    def refuse(seen: Seen) -> object:
        late = len(rig.server.calls("GET")) - before > after
        return error(403, "AccessDenied", "no") if seen.method == "GET" and late else None

    rig.server.hooks.append(refuse)  # type: ignore[arg-type]
    async with rig.client(rdma="never") as client:
        with pytest.raises(S3Error, match="AccessDenied"):
            await client.get_file("b", "k", target, resume=True)
    rig.server.hooks.clear()
    rig.server.seen.clear()


async def get_again(rig: Rig, target: Path) -> None:
    async with rig.client(rdma="never") as client:
        await client.get_file("b", "k", target, resume=True)


async def test_get__cut_off__fetches_only_the_rest(rig: Rig, tmp_path: Path) -> None:
    target = tmp_path / "out"
    await cut_off(rig, target)
    assert not target.exists()
    told: list[tuple[int, int]] = []
    async with rig.client(rdma="never") as client:
        progress = lambda *row: told.append(row)  # noqa: E731
        done = await client.get_file("b", "k", target, resume=True, progress=progress)
    assert fetched(rig) == ["bytes=600000-899999", "bytes=900000-999999"]
    assert (done.bytes, target.read_bytes()) == (len(DATA), DATA)
    assert sum(moved for moved, _ in told) == len(DATA)
    assert os.listdir(tmp_path) == ["out"]


async def test_get__all_was_there_but_the_name__fetches_nothing(rig: Rig, tmp_path: Path) -> None:
    target = tmp_path / "out"
    rig.server.objects["/b/k"] = DATA
    await cut_off(rig, target, after=PARTS - 1)
    await cut_off_at_the_end(rig, target)
    await get_again(rig, target)
    assert fetched(rig) == []
    assert target.read_bytes() == DATA


async def cut_off_at_the_end(rig: Rig, target: Path) -> None:
    """The last part arrives, and the process dies before the file has its name."""

    def die(*_: object) -> None:
        raise OSError("killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.client.files.os.replace", die)
        with pytest.raises(OSError, match="killed"):
            await get_again(rig, target)
    rig.server.seen.clear()


def damage_part(directory: Path) -> None:
    with hidden(directory, "part").open("r+b") as stream:
        stream.seek(PART_BYTES + 5)
        stream.write(b"another hand")


def shorten_part(directory: Path) -> None:
    os.truncate(hidden(directory, "part"), PART_BYTES + 1)


def tear_journal(directory: Path) -> None:
    journal = hidden(directory, "journal")
    journal.write_bytes(journal.read_bytes()[:-5])


@pytest.mark.parametrize("harm", [damage_part, shorten_part, tear_journal])
async def test_get__a_part_is_not_what_was_noted__is_fetched_again(
    harm: Callable[[Path], None], rig: Rig, tmp_path: Path
) -> None:
    await cut_off(rig, tmp_path / "out")
    harm(tmp_path)
    await get_again(rig, tmp_path / "out")
    assert len(fetched(rig)) == PARTS - 1
    assert (tmp_path / "out").read_bytes() == DATA


@pytest.mark.parametrize("journal", ["", "[]\n", '"text"\n', '["1 other null"]\n[0, 300000, 1]\n'])
async def test_get__journal_of_something_else__begins_again(
    journal: str, rig: Rig, tmp_path: Path
) -> None:
    await cut_off(rig, tmp_path / "out")
    hidden(tmp_path, "journal").write_text(journal)
    await get_again(rig, tmp_path / "out")
    assert len(fetched(rig)) == PARTS
    assert (tmp_path / "out").read_bytes() == DATA


async def test_get__object_was_replaced__begins_again(rig: Rig, tmp_path: Path) -> None:
    await cut_off(rig, tmp_path / "out")
    rig.server.objects["/b/k"] = DATA[::-1]
    await get_again(rig, tmp_path / "out")
    assert len(fetched(rig)) == PARTS
    assert (tmp_path / "out").read_bytes() == DATA[::-1]


async def test_get__replaced_while_it_goes_on__says_so(rig: Rig, tmp_path: Path) -> None:
    await cut_off(rig, tmp_path / "out")

    def replace_it(seen: Seen) -> None:
        if seen.method == "GET":
            rig.server.objects["/b/k"] = DATA[::-1]

    rig.server.hooks.append(replace_it)
    async with rig.client(rdma="never") as client:
        with pytest.raises(TransferError, match="replaced"):
            await client.get_file("b", "k", tmp_path / "out", resume=True)
    assert not (tmp_path / "out").exists()


async def test_get__another_process_fetches_it__is_refused(rig: Rig, tmp_path: Path) -> None:
    await cut_off(rig, tmp_path / "out")
    with hidden(tmp_path, "part").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        async with rig.client(rdma="never") as client:
            with pytest.raises(ValueError, match="another process"):
                await client.get_file("b", "k", tmp_path / "out", resume=True)
    await get_again(rig, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == DATA


async def test_get__by_rdma__goes_on_as_well(rig: Rig, tmp_path: Path) -> None:
    await cut_off(rig, tmp_path / "out")
    async with rig.client(rdma="require") as client:
        done = await client.get_file("b", "k", tmp_path / "out", resume=True)
    assert done.protocol is not None
    assert (tmp_path / "out").read_bytes() == DATA


async def test_get__of_an_empty_object__is_an_empty_file(rig: Rig, tmp_path: Path) -> None:
    rig.server.objects["/b/k"] = b""
    await get_again(rig, tmp_path / "out")
    assert (os.listdir(tmp_path), (tmp_path / "out").read_bytes()) == (["out"], b"")


async def test_file__at_its_end__is_as_old_as_its_object_and_on_the_disk(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.pread(fd, len(DATA), 0))
        real(fd)

    monkeypatch.setattr("gateway.client.files.os.fsync", fsync)
    date = {"Last-Modified": "Mon, 02 Mar 2026 12:00:00 GMT"}
    answer = rig.server.s3
    rig.server.s3 = lambda seen: with_headers(answer(seen), date)  # type: ignore[method-assign]
    async with rig.client(rdma="never") as client:
        await client.get_file("b", "k", tmp_path / "out")
    assert (tmp_path / "out").stat().st_mtime == 1_772_452_800
    assert synced == [DATA]


def with_headers(response: object, headers: dict[str, str]) -> object:
    response.headers.update(headers)  # type: ignore[attr-defined]
    return response


def test_ledger__no_journal_yet__is_fresh(tmp_path: Path) -> None:
    with (tmp_path / "part").open("w+b") as stream:
        ledger = Ledger(stream.fileno(), tmp_path / "journal", "identity")
        assert ledger.fresh
        ledger.close()
