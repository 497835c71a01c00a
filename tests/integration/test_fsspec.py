"""The filesystem by fsspec's own abstract tests, and by itself, against a real gateway."""

from __future__ import annotations

import csv
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.tests import abstract
from gateway_process import GatewayProcess, gateway_process

from gateway.client.fsspec import S3RdmaFileSystem
from gateway.config import MIB

BUCKET = "files"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    flags = ("--rdma-fabric", "soft", "--rdma-connections", "64")
    with gateway_process(tmp_path_factory.mktemp("files"), *flags) as process:
        yield process


@pytest.fixture(scope="module")
def options(gateway: GatewayProcess) -> dict[str, Any]:
    return {
        "endpoint_url": gateway.endpoint,
        "key": gateway.access_key,
        "secret": gateway.secret_key,
        "region_name": "us-east-1",
        "device": "soft",
        "skip_instance_cache": True,
    }


@pytest.fixture(scope="module")
def shared(options: dict[str, Any]) -> Iterator[S3RdmaFileSystem]:
    fs = S3RdmaFileSystem(**options)
    fs.mkdir(BUCKET)
    yield fs
    fs.close()


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, shared: S3RdmaFileSystem) -> S3RdmaFileSystem:
        return shared

    @pytest.fixture
    def fs_path(self) -> str:
        return BUCKET

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


class TestCopy(abstract.AbstractCopyTests, Fixtures): ...


class TestGet(abstract.AbstractGetTests, Fixtures): ...


class TestPut(abstract.AbstractPutTests, Fixtures): ...


class TestOpen(abstract.AbstractOpenTests, Fixtures): ...


class TestPipe(abstract.AbstractPipeTests, Fixtures): ...


def test_open__by_url__reads_and_writes_text(shared: Any, options: dict[str, Any]) -> None:
    url = f"s3rdma://{BUCKET}/table.csv"
    fsspec.register_implementation("s3rdma", S3RdmaFileSystem, clobber=True)
    with fsspec.open(url, "w", newline="", **options) as file:
        csv.writer(file).writerows([["a", "b"], ["1", "2"]])
    with fsspec.open(url, "r", **options) as file:
        assert list(csv.reader(file)) == [["a", "b"], ["1", "2"]]


def test_readinto__a_range__goes_by_rdma_into_the_callers_array(
    shared: S3RdmaFileSystem, gateway: GatewayProcess
) -> None:
    data = secrets.token_bytes(4 * MIB)
    shared.pipe_file(f"{BUCKET}/range", data)
    array = np.zeros(2 * MIB, np.uint8)
    with shared.open(f"{BUCKET}/range", "rb") as file:
        file.seek(MIB + 1)
        assert file.readinto(array) == 2 * MIB
        assert file.tell() == 3 * MIB + 1
        assert file.read() == data[3 * MIB + 1 :]
    assert array.tobytes() == data[MIB + 1 : 3 * MIB + 1]
    lines = gateway.log_lines(rf"(GET|PUT) /{BUCKET}/range ")
    assert lines
    assert all(" in=0 out=0 " in line for line in lines)


@pytest.mark.parametrize(
    ("start", "end"), [(None, None), (5, 10), (-5, None), (None, -5), (8, 3), (0, 100)]
)
def test_cat__of_a_range__is_what_a_slice_is(
    shared: S3RdmaFileSystem, start: int | None, end: int | None
) -> None:
    shared.pipe_file(f"{BUCKET}/slice", b"0123456789abcdef")
    assert shared.cat_file(f"{BUCKET}/slice", start, end) == b"0123456789abcdef"[start:end]


def test_ls__of_everything__tells_files_from_directories(shared: S3RdmaFileSystem) -> None:
    shared.pipe({f"{BUCKET}/ls/a": b"1", f"{BUCKET}/ls/b/c": b"22"})
    assert [row["name"] for row in shared.ls("")] == [BUCKET]
    rows = {row["name"]: (row["type"], row["size"]) for row in shared.ls(f"{BUCKET}/ls")}
    assert rows == {f"{BUCKET}/ls/a": ("file", 1), f"{BUCKET}/ls/b": ("directory", 0)}
    assert shared.find(f"{BUCKET}/ls") == [f"{BUCKET}/ls/a", f"{BUCKET}/ls/b/c"]
    assert shared.isdir(f"{BUCKET}/ls/b")
    assert not shared.exists(f"{BUCKET}/ls/z")
    shared.rm(f"{BUCKET}/ls", recursive=True)
    assert not shared.exists(f"{BUCKET}/ls")


def test_errors__are_those_of_files(shared: S3RdmaFileSystem, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        shared.open(f"{BUCKET}/none", "rb")
    with pytest.raises(FileNotFoundError):
        shared.ls("nowhere")
    with pytest.raises(FileExistsError):
        shared.makedirs(BUCKET)
    with pytest.raises(ValueError, match="not changed"):
        shared.open(f"{BUCKET}/none", "ab")
    with suppress(ZeroDivisionError), shared.open(f"{BUCKET}/half", "wb") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert not shared.exists(f"{BUCKET}/half")


def test_credentials__wrong__are_a_permission_error(options: dict[str, Any]) -> None:
    fs = S3RdmaFileSystem(**options | {"secret": "wrong"})
    with pytest.raises(PermissionError, match="SignatureDoesNotMatch"):
        fs.ls(BUCKET)
    fs.close()


def test_endpoint__none__says_what_is_missing(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with pytest.raises(ValueError, match="HOST:PORT"):
        S3RdmaFileSystem(**options | {"endpoint_url": None})


def test_modes__create__refuse_what_is_there(shared: S3RdmaFileSystem, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"new")
    shared.pipe_file(f"{BUCKET}/there", b"old")
    with pytest.raises(FileExistsError):
        shared.pipe_file(f"{BUCKET}/there", b"new", mode="create")
    with pytest.raises(FileExistsError):
        shared.put_file(str(tmp_path / "in"), f"{BUCKET}/there", mode="create")
    with pytest.raises(FileExistsError):
        shared.open(f"{BUCKET}/there", "xb")
    assert shared.cat_file(f"{BUCKET}/there") == b"old"
    assert shared.modified(f"{BUCKET}/there") == shared.created(f"{BUCKET}/there") != ""


def test_writer__large__spills_and_is_one_object(shared: S3RdmaFileSystem) -> None:
    data = secrets.token_bytes(20 * MIB)
    with shared.open(f"{BUCKET}/spilled", "wb") as file:
        file.write(data[: 15 * MIB])
        file.write(data[15 * MIB :])
        assert file.tell() == len(data)
    assert shared.cat_file(f"{BUCKET}/spilled") == data
