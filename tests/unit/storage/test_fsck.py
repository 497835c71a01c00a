"""fsck names what is wrong, repairs what can be, and never removes bytes that a row names."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from storing import complete, draft, get, initiate, new_bucket, put, put_part, stage

from gateway.errors import InternalError
from gateway.storage.blocks import BLOCK_BYTES
from gateway.storage.findings import Kind, Report, State
from gateway.storage.fsck import check
from gateway.storage.port import ObjectDraft
from gateway.storage.store import Store
from gateway.wire.checksums import Algorithm

Files = Callable[[], list[Path]]
ORPHAN = "00112233445566778899aabbccddeeff"
CRC32_OF_DATA = "rfPzYw=="  # zlib.crc32(b"data")


def found(report: Report) -> list[tuple[Kind, State]]:
    return [(finding.kind, finding.state) for finding in report.findings]


def change_row(root: Path, statement: str) -> None:
    with sqlite3.connect(root / "catalog.db") as db:
        db.execute(statement)
    db.close()


async def filled(store: Store) -> None:
    """An object in a file, one in the catalog, one of parts, an upload."""
    await put(store, "file", os.urandom(3 * BLOCK_BYTES))
    crc = ObjectDraft(4, draft(b"data").etag, checksums={Algorithm.CRC32: CRC32_OF_DATA})
    await store.commit_object(await stage(store, b"data"), "bucket", "small", crc)
    upload_id = await initiate(store, "parts")
    parts = [await put_part(store, "parts", upload_id, n, b"part") for n in (1, 2)]
    await complete(store, "parts", upload_id, parts)
    await put_part(store, "up", await initiate(store, "up"), 1, b"part")


async def test_check__whole_store_in_use__nothing_found(store: Store, root: Path) -> None:
    await filled(store)
    seen: list[int] = []
    report = await asyncio.to_thread(check, root, progress=lambda r: seen.append(r.objects))
    assert found(report) == []
    assert report.exit_code == 0
    assert (report.objects, report.read_bytes) == (4, 3 * BLOCK_BYTES + 4 + 8 + 4)
    assert seen == [1, 2, 3, 4]
    assert list(report.lines()) == [
        f"4 objects and uploads, {report.read_bytes} bytes read: no findings"
    ]


def test_check__no_store_there__says_so(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as caught:
        check(tmp_path)
    assert "there is no store" in caught.value.cause


async def test_check__repair_while_in_use__refused(store: Store, root: Path) -> None:
    with pytest.raises(InternalError) as caught:
        check(root, repair=True)
    assert "stop its gateways" in caught.value.cause


async def test_check__older_schema__refused(store: Store, root: Path) -> None:
    await store.stop()
    change_row(root, "PRAGMA user_version = 2")
    with pytest.raises(InternalError) as caught:
        check(root)
    assert "has schema 2" in caught.value.cause


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], None], Kind]] = {
    "flipped": (lambda path: flip(path, BLOCK_BYTES), Kind.DAMAGED),
    "truncated": (lambda path: os.truncate(path, 10), Kind.DAMAGED),
    "gone": (Path.unlink, Kind.MISSING),
}


@pytest.mark.parametrize("how", DAMAGES)
async def test_check__data_file_damaged__named_quarantined_and_restored(
    store: Store, root: Path, make_store: Any, data_files: Files, how: str
) -> None:
    damage, kind = DAMAGES[how]
    data = os.urandom(3 * BLOCK_BYTES)
    await put(store, "key", data)
    await put(store, "other", b"data")
    await store.stop()
    path = max(data_files(), key=lambda path: path.stat().st_size)
    intact = path.read_bytes()
    damage(path)

    report = check(root)
    assert found(report) == [(kind, State.FOUND)]
    assert report.findings[0].subject == "bucket/key"
    assert str(path) in report.findings[0].detail
    assert report.exit_code == 2

    assert found(check(root, repair=True)) == [(kind, State.QUARANTINED)]
    again = make_store()
    await again.start()
    with pytest.raises(InternalError) as caught:
        await get(again, "key")
    assert "fsck found it damaged" in caught.value.cause
    assert "bucket/key" in caught.value.cause
    assert await get(again, "other") == b"data"
    assert (await again.head_object("bucket", "key", None)).size_bytes == len(data)
    await again.stop()

    path.write_bytes(intact)
    restored = check(root, repair=True)
    assert found(restored) == [(Kind.DAMAGED, State.REPAIRED)]
    assert restored.exit_code == 1
    assert check(root).exit_code == 0
    third = make_store()
    await third.start()
    assert await get(third, "key") == data


async def test_check__bytes_of_the_catalog_damaged__named(make_store: Any, root: Path) -> None:
    store = make_store(inline_max_bytes=8192)
    await store.start()
    await store.create_bucket(new_bucket("bucket"))
    await put(store, "key", b"data")
    await store.stop()
    change_row(root, "UPDATE pieces SET data = X'646174610000000000000000'")
    report = check(root)
    assert found(report) == [(Kind.DAMAGED, State.FOUND)]
    assert report.findings[0].subject == "bucket/key"


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("etag", "'" + "0" * 32 + "'", "their MD5"),
        ("checksums", "'CRC32=AAAAAA=='", "their CRC32"),
    ],
)
async def test_check__digest_of_the_row_differs__named(
    store: Store, root: Path, column: str, value: str, words: str
) -> None:
    await filled(store)
    await store.stop()
    change_row(
        root,
        f"UPDATE pieces SET {column} = {value} WHERE number = 0 AND size_bytes = 4",
    )
    report = check(root)
    assert [finding.subject for finding in report.findings] == ["bucket/small"]
    assert words in report.findings[0].detail


async def test_check__full_objects_checksum_differs__named(store: Store, root: Path) -> None:
    await filled(store)
    await store.stop()
    change_row(root, "UPDATE objects SET checksums = 'CRC32=AAAAAA==' WHERE key = X'7061727473'")
    report = check(root)
    assert [finding.subject for finding in report.findings] == ["bucket/parts"]
    assert "their CRC32" in report.findings[0].detail


async def test_check__files_without_rows__found_alone_and_moved(
    store: Store, root: Path, data_files: Files
) -> None:
    await filled(store)
    published = root / "objects" / ORPHAN[-2:] / ORPHAN
    half = root / "staging" / ORPHAN[::-1]
    published.write_bytes(b"lost")
    half.write_bytes(b"ha")
    assert found(await asyncio.to_thread(check, root)) == []  # a gateway may be about to name them
    await store.stop()
    assert found(check(root)) == [(Kind.LEFTOVER, State.FOUND), (Kind.ORPHAN, State.FOUND)]
    report = check(root, repair=True)
    assert found(report) == [(Kind.LEFTOVER, State.REPAIRED), (Kind.ORPHAN, State.REPAIRED)]
    assert report.exit_code == 1
    assert (root / "lost+found" / ORPHAN).read_bytes() == b"lost"
    assert not half.exists()
    assert check(root).exit_code == 0


async def test_check__rows_without_an_owner__set_aside(
    store: Store, root: Path, data_files: Files
) -> None:
    await filled(store)
    await store.stop()
    files = len(data_files())
    change_row(root, "DELETE FROM objects WHERE key = X'66696C65'")
    change_row(root, "UPDATE uploads SET bucket = 'absent'")
    assert [kind for kind, _ in found(check(root))] == [Kind.DANGLING] * 2
    assert check(root, repair=True).exit_code == 1
    assert check(root).exit_code == 0
    assert len(data_files()) == files - 2
    assert len(list((root / "lost+found").iterdir())) == 2


async def test_check__pieces_do_not_make_the_object__named(store: Store, root: Path) -> None:
    await filled(store)
    await store.stop()
    change_row(root, "DELETE FROM pieces WHERE number = 2")
    report = check(root, repair=True)
    assert (Kind.LENGTH, State.FOUND) in found(report)
    assert report.exit_code == 2


async def test_check__index_damaged__made_anew(store: Store, root: Path) -> None:
    await filled(store)
    await store.stop()
    with sqlite3.connect(root / "catalog.db") as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, '(initiated_ns)', '(owner)') "
            "WHERE name = 'uploads_by_age'"
        )
    db.close()
    assert {kind for kind, _ in found(check(root))} == {Kind.CATALOG}
    assert check(root, repair=True).exit_code == 1
    assert check(root).exit_code == 0


async def test_check__files_of_an_older_gateway__get_sums(
    store: Store, root: Path, data_files: Files, make_store: Any
) -> None:
    data = os.urandom(3 * BLOCK_BYTES)
    await put(store, "key", data)
    await store.stop()
    (path,) = data_files()
    os.truncate(path, len(data))
    change_row(root, "UPDATE pieces SET summed = 0")
    assert check(root).exit_code == 0
    report = check(root, repair=True)
    assert (report.exit_code, report.sums_added) == (0, 1)
    assert "sums added to 1 files" in list(report.lines())[-1]
    flip(path, 5)
    again = make_store()
    await again.start()
    with pytest.raises(InternalError):
        await get(again, "key")
