"""``s3rdma fsck`` and ``s3rdma backup``: what they say and how they end."""

import asyncio
import json
from pathlib import Path

import pytest
from storing import new_bucket, put

from gateway.cli import main
from gateway.config import StoreConfig
from gateway.storage.store import Store

SIZE_BYTES = 10_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that nobody uses, with one object in a file."""

    async def fill() -> None:
        store = Store(StoreConfig(root=tmp_path / "store"))
        await store.start()
        await store.create_bucket(new_bucket("bucket"))
        await put(store, "key", bytes(SIZE_BYTES))
        await store.stop()

    asyncio.run(fill())
    return tmp_path / "store"


def damage(root: Path) -> bytes:
    """Overwrite the object's first bytes; returns the whole file as it was."""
    (path,) = root.glob("objects/*/*")
    intact = path.read_bytes()
    path.write_bytes(b"rot" + intact[3:])
    return intact


def test_fsck__sound__0_and_a_summary(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fsck", "--store", str(root)]) == 0
    assert (
        capsys.readouterr().out == f"1 objects and uploads, {SIZE_BYTES} bytes read: no findings\n"
    )


def test_fsck__damaged__2_until_it_is_restored(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    intact = damage(root)
    assert main(["fsck", "--store", str(root)]) == 2
    assert capsys.readouterr().out.startswith("found: bucket/key: bytes are damaged: ")
    assert main(["fsck", "--store", str(root), "--repair", "--json"]) == 2
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["kind"], finding["state"]) == ("damaged", "quarantined")
    next(root.glob("objects/*/*")).write_bytes(intact)
    assert main(["fsck", "--store", str(root), "--repair"]) == 1
    assert main(["fsck", "--store", str(root)]) == 0


def test_fsck__no_store__2_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fsck", "--store", str(tmp_path)]) == 2
    assert "there is no store in" in capsys.readouterr().err


def test_backup__taken__0_and_it_is_a_store(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "copy"
    assert main(["backup", "--store", str(root), str(target)]) == 0
    assert capsys.readouterr().out == f"{target}: 1 files linked, 0 copied\n"
    assert main(["fsck", "--store", str(target)]) == 0


def test_backup__a_file_is_gone__1_and_what_to_do(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    next(root.glob("objects/*/*")).unlink()
    assert main(["backup", "--store", str(root), str(tmp_path / "copy")]) == 1
    assert "see `s3rdma fsck`" in capsys.readouterr().err


def test_backup__target_not_empty__1(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", "--store", str(root), str(root)]) == 1
    assert "not empty" in capsys.readouterr().err
