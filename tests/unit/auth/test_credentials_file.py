"""auth.credentials_file: AWS's format, read again when it changes, on a fake clock."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.auth.credentials import Credentials, CredentialStore, Scope
from gateway.auth.credentials_file import (
    MAX_BYTES,
    CredentialsFile,
    CredentialsFileError,
    parse_credentials,
)
from gateway.auth.principal import GATEWAY_ACCOUNT, Account

TWO = """
[alice]
aws_access_key_id = AKIA
aws_secret_access_key = secret/a=%b
user_id = alice
display_name = Alice A.
email = alice@example.com

[default]
aws_access_key_id = AKIO
aws_secret_access_key = secret-o
"""
ALICE = Credentials("AKIA", "secret/a=%b", Account("alice", "Alice A.", "alice@example.com"))
OWN = Credentials("AKIO", "secret-o", GATEWAY_ACCOUNT)
SCOPE = Scope("20260101", "us-east-1", "s3")


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.touch(0o600)
    file.write_text(TWO)
    return file


def parse(text: str) -> tuple[Credentials, ...]:
    return parse_credentials(text.encode(), "keys")


def refusal(text: str) -> str:
    with pytest.raises(CredentialsFileError) as caught:
        parse(text)
    assert "secret" not in str(caught.value).replace("aws_secret_access_key", "")
    return str(caught.value)


def rewrite(path: Path, text: str) -> None:
    """As editors do: another inode under the same name."""
    other = path.with_suffix(".new")
    other.touch(0o600)
    other.write_text(text)
    other.replace(path)


def test_parse__sections__are_keys_with_their_accounts() -> None:
    assert parse(TWO) == (ALICE, OWN)


def test_parse__name_left_out__is_the_user_id() -> None:
    (key,) = parse("[a]\naws_access_key_id=K\naws_secret_access_key=secret\nuser_id=u\n")
    assert key.account == Account("u", "u")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no section"),
        ("aws_access_key_id = secret", "no INI file"),
        ("[a\nsecret", "no INI file"),
        ("[a]\naws_access_key_id = K", "needs aws_access_key_id and"),
        ("[a]\naws_secret_access_key = secret", "needs aws_access_key_id and"),
        (TWO + TWO.replace("[alice]", "[b]").replace("[default]", "[c]"), "in two sections"),
        (TWO + "[b]\naws_access_key_id=B\naws_secret_access_key=secret\nuser_id=alice", "differ"),
        (
            TWO + "[b]\naws_access_key_id=B\naws_secret_access_key=secret\nuser_id=bob\n"
            "email=ALICE@example.com",
            "two accounts",
        ),
    ],
)
def test_parse__fault__is_named_without_any_secret(text: str, said: str) -> None:
    assert said in refusal(text)


def test_parse__not_utf8__is_no_ini_file() -> None:
    with pytest.raises(CredentialsFileError, match="no INI file"):
        parse_credentials(b"[a]\n\xff", "keys")


def test_read__others_may_read_it__is_refused_with_the_remedy(path: Path) -> None:
    path.chmod(0o640)
    with pytest.raises(CredentialsFileError, match="chmod 600"):
        CredentialsFile(path, Clock()).read()


def test_read__missing_or_endless__is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(CredentialsFileError, match="No such file"):
        CredentialsFile(tmp_path / "none", Clock()).read()
    path.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(CredentialsFileError, match="longer than"):
        CredentialsFile(path, Clock()).read()


def test_changed__another_file_under_the_name__is_read_after_a_second(path: Path) -> None:
    clock = Clock()
    file = CredentialsFile(path, clock)
    assert file.read() == (ALICE, OWN)
    rewrite(path, TWO.replace("secret-o", "secret-new"))
    assert file.changed() is None  # looked at less than a second ago
    clock.now_s += 1
    assert file.changed() == (ALICE, Credentials("AKIO", "secret-new"))
    clock.now_s += 1
    assert file.changed() is None


def test_changed__written_in_place__is_read(path: Path) -> None:
    clock = Clock()
    file = CredentialsFile(path, clock)
    file.read()
    path.write_text(TWO.replace("secret-o", "secret-p"))
    os.utime(path, ns=(1, 1))
    clock.now_s += 1
    assert file.changed() == (ALICE, Credentials("AKIO", "secret-p"))


def test_changed__broken__keeps_the_old_and_says_so_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    file = CredentialsFile(path, clock)
    file.read()
    path.unlink()
    for _ in range(3):
        clock.now_s += 1
        assert file.changed() is None
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "the old access keys stay" in caplog.text
    path.touch(0o600)
    path.write_text(TWO)
    clock.now_s += 1
    assert file.changed() == (ALICE, OWN)


def test_look_again__at_once__reads_an_unchanged_file(path: Path) -> None:
    file = CredentialsFile(path, Clock())
    file.read()
    file.look_again()
    assert file.changed() == (ALICE, OWN)


def test_store__file_changed__forgets_keys_signing_keys_and_accounts(path: Path) -> None:
    clock = Clock()
    file = CredentialsFile(path, clock)
    store = CredentialStore(file.read(), changed=file.changed)
    before = store.signing_key("AKIO", SCOPE)
    assert store.principal("AKIA").account == ALICE.account
    assert store.accounts.by_email("alice@example.com") == ALICE.account
    rewrite(path, "[o]\naws_access_key_id = AKIO\naws_secret_access_key = secret-new\n")
    clock.now_s += 1
    assert store.signing_key("AKIO", SCOPE) not in (None, before)
    assert store.lookup("AKIA") is None
    assert store.accounts.by_id("alice") is None
