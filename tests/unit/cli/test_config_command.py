"""Every setting, its value and its source; no secret."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.config.load import settings


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "s3rdma.toml"
    path.write_text('access_key = "AK"\nsecret_key = "hush"\n[rdma]\nlanes = ["2x1MiB"]\n')
    for name in [name for name in os.environ if name.startswith("S3RDMA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("S3RDMA_HTTP_PORT", "9001")
    monkeypatch.setenv("S3RDMA_STORE", "/srv/store")
    return path


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, str]]:
    assert main(["config", "show", "--json", *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_show__changed__names_each_source(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = shown(capsys, "--changed", "--config", str(file))
    assert {row["setting"]: (row["value"], row["source"]) for row in rows} == {
        "http.port": ("9001", "S3RDMA_HTTP_PORT"),
        "rdma.lanes": ("2x1MiB", f"{file}: rdma.lanes"),
        "store.root": ("/srv/store", "S3RDMA_STORE"),
        "access_key": ("AK", f"{file}: access_key"),
        "secret_key": ("(set; not shown)", f"{file}: secret_key"),
    }


def test_show__everything__is_every_setting_and_no_secret(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "show", "--config", str(file)]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) == len(list(settings()))
    assert "hush" not in text
    assert "http.port = 9001    # S3RDMA_HTTP_PORT\n" in text
    assert "store.durability = full    # default\n" in text
    assert "rdma.receive_sge = false    # default\n" in text
    assert "rdma.slot_bytes = 4MiB    # default\n" in text


def test_show__of_names__shows_those(capsys: pytest.CaptureFixture[str]) -> None:
    names = [row["setting"] for row in shown(capsys, "log.level", "storage")]
    assert {"log.level", "storage.driver"} <= set(names)
    assert all(name == "log.level" or name.startswith("storage.") for name in names)
    assert main(["config", "show", "no.such"]) == 2


def test_check__good_and_bad__is_the_exit_code(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "check", "--config", str(file)]) == 0
    assert "all good" in capsys.readouterr().out
    file.write_text("[http]\nprot = 1\n")
    assert main(["config", "check", "--config", str(file)]) == 2
    assert "did you mean http.port" in capsys.readouterr().err
