"""The file of keys, edited: what was there stays, and the gateway can read what comes out."""

from __future__ import annotations

import configparser
import json
import os
import stat
from pathlib import Path

import pytest

from gateway.auth.credentials_file import CredentialsFile
from gateway.cli import main

OLD = """\
# the trainers' keys
[trainer]
aws_access_key_id = AKTRAINER
aws_secret_access_key=old=secret
user_id = ml
display_name = ML team

# and the readers'
[reader]
aws_access_key_id = AKREADER
aws_secret_access_key = readers
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(OLD)
    path.chmod(0o600)
    return path


def sections(path: Path) -> dict[str, dict[str, str]]:
    """As the AWS tools read it."""
    parser = configparser.RawConfigParser(default_section="")
    parser.read_string(path.read_text())
    return {name: dict(parser[name]) for name in parser.sections()}


def keys(path: Path, action: str, *words: str) -> int:
    return main(["keys", action, *words, "--credentials-file", str(path)])


def test_add__to_a_file_that_is_there__keeps_all_of_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert keys(file, "add", "new", "--user-id", "u", "--email", "u@example.com") == 0
    assert file.read_text().startswith(OLD)
    added = sections(file)["new"]
    assert (added["user_id"], added["display_name"]) == ("u", "u")
    shown = capsys.readouterr().out
    assert added["aws_access_key_id"] in shown
    assert added["aws_secret_access_key"] in shown
    assert len(added["aws_access_key_id"]) == 20


def test_add__no_file_yet__makes_one_for_its_owner_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert keys(tmp_path / "keys", "add", "first", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o600
    assert sections(tmp_path / "keys")["first"] == {
        "aws_access_key_id": told["access_key"],
        "aws_secret_access_key": told["secret_key"],
    }
    assert os.listdir(tmp_path) == ["keys"]


def test_rotate__a_key__has_another_pair_and_the_same_account(file: Path) -> None:
    assert keys(file, "rotate", "trainer") == 0
    after = sections(file)
    assert after["trainer"]["aws_access_key_id"] != "AKTRAINER"
    assert after["trainer"]["aws_secret_access_key"] != "old=secret"
    assert after["trainer"]["user_id"] == "ml"
    assert after["reader"]["aws_secret_access_key"] == "readers"
    assert file.read_text().startswith("# the trainers' keys\n[trainer]\n")


def test_rotate__keeping_the_old__both_are_good_until_it_is_removed(file: Path) -> None:
    assert keys(file, "rotate", "trainer", "--keep-old") == 0
    accounts = {key.access_key: key.account.user_id for key in CredentialsFile(file, float).read()}
    assert accounts["AKTRAINER"] == "ml"
    assert len(accounts) == 3
    assert keys(file, "rotate", "trainer", "--keep-old") == 1
    assert keys(file, "remove", "trainer-old") == 0
    assert list(sections(file)) == ["trainer", "reader"]


def test_list__all_keys__shows_no_secret(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys(file, "list") == 0
    assert keys(file, "list", "--json") == 0
    shown = capsys.readouterr().out
    assert "AKTRAINER" in shown
    assert "ML team" in shown
    assert "secret" not in shown
    assert "readers" not in shown


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("add", "trainer"), "there is a [trainer] already"),
        (("add", "a]b"), "can't be a section's name"),
        (("add", " a"), "can't be a section's name"),
        (("add", "new", "--email", "a@example.com"), "need --user-id"),
        (("add", "new", "--user-id", "a\nb"), "more than a line"),
        (("add", "new", "--user-id", "ml", "--display-name", "other"), "display_name"),
        (("rotate", "nobody"), "there is no [nobody], only trainer, reader"),
        (("remove", "nobody"), "there is no [nobody]"),
    ],
)
def test_change__that_cannot_be__changes_nothing(
    words: tuple[str, ...], reason: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.stat()
    assert keys(file, *words) == 1
    assert reason in capsys.readouterr().err
    assert file.read_text() == OLD
    assert file.stat().st_ino == before.st_ino
    assert os.listdir(file.parent) == ["keys"]


def test_remove__the_last_key__is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert keys(file, "remove", "trainer") == 0
    assert keys(file, "remove", "reader") == 1
    assert "last key" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["list", "add", "rotate", "remove"])
def test_file__that_others_may_read__is_refused(
    action: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.chmod(0o640)
    assert keys(file, action, *([] if action == "list" else ["reader"])) == 1
    assert "chmod 600" in capsys.readouterr().err


def test_file__that_cannot_be_written__is_said(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gateway.cli.keyfile.os.fsync", full)
    assert keys(file, "add", "new") == 1
    assert "No space left" in capsys.readouterr().err
    assert (os.listdir(file.parent), file.read_text()) == (["keys"], OLD)


@pytest.mark.parametrize("text", [b"[a]\xff", b"no section = 1"])
def test_file__that_is_none__is_not_quoted(
    text: bytes, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(text)
    assert keys(file, "add", "new") == 1
    assert "no section" not in capsys.readouterr().err


def test_file__by_the_gateways_settings__is_found(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("S3RDMA_CREDENTIALS_FILE", str(file))
    assert main(["keys", "list"]) == 0
    monkeypatch.delenv("S3RDMA_CREDENTIALS_FILE")
    file.rename(tmp_path / "credentials")
    monkeypatch.setenv("S3RDMA_STORE", str(tmp_path))
    assert main(["keys", "list"]) == 0
    assert capsys.readouterr().out.count("AKTRAINER") == 2
    monkeypatch.setenv("S3RDMA_HTTP_PORT", "none")
    assert main(["keys", "list"]) == 2
