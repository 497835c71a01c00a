"""What the doctor finds of storage and keys, and of a gateway whose answers are odd."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_rc_gateway import Rig, Seen, error, running_rig, xml

from gateway.cli import (
    gateway_findings,
    main,
    options,
    storage_findings,
    upstream_findings,
)
from gateway.cli.diagnosis import Finding, Level
from gateway.config import Config, StorageConfig, StoreConfig
from gateway.config.load import load


def stored(root: Path, **changes: Any) -> Config:
    return replace(Config(), store=StoreConfig(root=root), **changes)


def one(config: Config) -> Finding:
    (finding,) = storage_findings.look(config)
    return finding


def test_store__there_or_to_be_made__is_good(tmp_path: Path) -> None:
    there, made = one(stored(tmp_path)), one(stored(tmp_path / "a" / "b"))
    assert (there.level, made.level) == (Level.GOOD, Level.GOOD)
    assert "there, " in there.detail
    assert "not there yet, " in made.detail
    assert not (tmp_path / "a").exists()


def test_store__under_a_file__is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert one(stored(tmp_path / "file" / "store")).level is Level.BROKEN


def test_store__that_may_not_be_written__is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    finding = one(stored(tmp_path))
    assert finding.level is Level.BROKEN
    assert "may not write" in finding.detail


def test_store__little_room__is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = storage_findings.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(storage_findings.shutil, "disk_usage", lambda _path: usage)
    assert one(stored(tmp_path)).level is Level.NOTE


def test_tree__that_is_missing__is_not_made(tmp_path: Path) -> None:
    config = load(environ={"S3RDMA_STORAGE_DRIVER": "tree", "S3RDMA_TREE_ROOT": f"{tmp_path}/t"})
    assert one(config).level is Level.BROKEN
    (tmp_path / "t").mkdir()
    assert one(config).level is Level.GOOD


def test_upstream__named__its_service_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Config] = []

    def look(config: Config) -> Iterator[Finding]:
        asked.append(config)
        yield Finding(Level.GOOD, "upstream", "it answers")

    monkeypatch.setattr(upstream_findings, "look", look)
    config = replace(Config(), storage=StorageConfig(driver="upstream"))
    assert one(config).detail == "it answers"
    assert asked == [config]


@pytest.mark.parametrize(("mode", "level"), [(0o600, Level.GOOD), (0o644, Level.BROKEN)])
def test_keys__of_each_mode__are_judged(mode: int, level: Level, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("[a]\naws_access_key_id = A\naws_secret_access_key = hush\n")
    file.chmod(mode)
    _, keys = storage_findings.look(stored(tmp_path, credentials_file=str(file)))
    assert keys.level is level
    assert "hush" not in keys.detail


def test_doctor__with_a_configuration__looks_at_its_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith(("S3RDMA_", "AWS_ENDPOINT"))]:
        monkeypatch.delenv(name)
    file = tmp_path / "s3rdma.toml"
    file.write_text(f'[store]\nroot = "{tmp_path}/file/store"\n')
    (tmp_path / "file").touch()
    assert main(["doctor", "--json", "--config", str(file)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["findings"][-1]["subject"] == "storage"
    assert told["verdict"].startswith("Nothing can be moved: storage: ")


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:  # type: ignore[misc]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SK")
    async with running_rig(monkeypatch) as running:
        running.server.hooks.append(_buckets)
        yield running


def _buckets(seen: Seen) -> object:
    return xml("ListAllMyBucketsResult", "") if seen.raw_path == "/" else None


async def findings(rig: Rig) -> dict[str, Finding]:
    import argparse

    parser = argparse.ArgumentParser()
    options.add_connection_options(parser)
    options.add_device_option(parser)
    parser.add_argument("--bucket")
    words = ["--endpoint-url", rig.url, "--bucket", "b", "--device", "no-such"]
    args = parser.parse_args(words)
    return {one.subject: one async for one in gateway_findings.look(args)}


async def test_gateway__clock_is_off__is_noted(rig: Rig) -> None:
    def late(_seen: Seen) -> object:
        response = xml("ListAllMyBucketsResult", "")
        response.headers["Date"] = "Mon, 02 Mar 2026 12:00:00 GMT"
        return response if _seen.raw_path == "/" else None

    rig.server.hooks.insert(0, late)  # type: ignore[arg-type]
    clock = (await findings(rig))["clock"]
    assert clock.level is Level.NOTE
    assert "timedatectl" in clock.remedy


@pytest.mark.parametrize(
    ("status", "code", "subject", "level"),
    [
        (403, "InvalidAccessKeyId", "credentials", Level.BROKEN),
        (403, "RequestTimeTooSkewed", "clock", Level.BROKEN),
        (403, "AccessDenied", "self-test", Level.NOTE),
        (500, "InternalError", "self-test", Level.BROKEN),
    ],
)
async def test_gateway__refuses__is_judged_by_its_code(
    status: int, code: str, subject: str, level: Level, rig: Rig
) -> None:
    rig.server.hooks.insert(0, lambda _seen: error(status, code, "no"))
    found = await findings(rig)
    assert found[subject].level is level
    assert code in found[subject].detail


async def test_gateway__other_bytes_come_back__is_broken(rig: Rig) -> None:
    get = rig.server.http_get
    rig.server.http_get = lambda seen, data: get(seen, data[::-1])  # type: ignore[method-assign]
    found = await findings(rig)
    assert found["http"].level is Level.BROKEN


async def test_gateway__knows_no_tokens__is_noted(rig: Rig) -> None:
    rig.server.connections.answer = lambda seen, s3, **_: s3(seen)  # type: ignore[method-assign]
    found = await findings(rig)
    assert "passed over" in found["cuObject"].detail
    assert found["RDMA"].level is Level.BAD
