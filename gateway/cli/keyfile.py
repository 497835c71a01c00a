"""Editing the gateway's file of access keys: its comments stay, and it is replaced in one step.

The format is that of ``gateway.auth.credentials_file``, and so is what makes it good: nothing is
written that the gateway would not read.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gateway.auth.credentials import Credentials
from gateway.auth.credentials_file import CredentialsFileError, parse_sections, read_text
from gateway.auth.principal import GATEWAY_ACCOUNT

_HEADER = re.compile(r"\[(.+)\]")
_FIELD = re.compile(r"([^=#;]+?)\s*=")
_ACCESS_KEY, _SECRET_KEY = "aws_access_key_id", "aws_secret_access_key"


class KeyFileError(Exception):
    """The change can't be made; one line, without any secret."""


def read_keys(path: Path) -> dict[str, Credentials]:
    """The keys by the names of their sections. Raises KeyFileError."""
    try:
        return parse_sections(read_text(path)[0], str(path))
    except CredentialsFileError as error:
        raise KeyFileError(str(error)) from error


def add_key(path: Path, name: str, key: Credentials) -> None:
    """A new section; the file is made where there is none, for its owner alone."""
    check_name(name)

    def added(text: str) -> str:
        if name in _names(text):
            raise KeyFileError(f"{path}: there is a [{name}] already: rotate or remove it")
        gap = "\n" if text.strip() else ""
        return f"{text.rstrip()}\n{gap}{_section(name, key)}".lstrip("\n")

    _edit(path, added)


def rotate_key(path: Path, name: str, key: Credentials, old_name: str | None) -> None:
    """Another pair for a section; its account stays.

    Args:
        path: the file.
        name: the section's.
        key: the new pair.
        old_name: of a section that keeps the old pair good; None ends it at once.
    """

    def rotated(text: str) -> str:
        old = _found(path, name)
        if old_name is not None:
            if old_name in _names(text):
                raise KeyFileError(f"{path}: there is a [{old_name}] already: remove it")
            text = f"{text.rstrip()}\n\n{_section(old_name, old)}"
        return _with_values(text, name, {_ACCESS_KEY: key.access_key, _SECRET_KEY: key.secret_key})

    _edit(path, rotated)


def remove_key(path: Path, name: str) -> None:
    """A section, away."""

    def removed(text: str) -> str:
        _found(path, name)
        if len(_names(text)) == 1:
            raise KeyFileError(f"{path}: [{name}] is the last key: add another one before")
        return "".join(line for section, line in _lines(text) if section != name)

    _edit(path, removed)


def check_name(name: str) -> None:
    """Raise KeyFileError where a section can't be called so."""
    if not name.isprintable() or name != name.strip() or not name or set(name) & set("[]"):
        raise KeyFileError(f"{name!r} can't be a section's name: no brackets, no odd spaces")


def _found(path: Path, name: str) -> Credentials:
    keys = read_keys(path)
    if name not in keys:
        raise KeyFileError(f"{path}: there is no [{name}], only {', '.join(keys)}")
    return keys[name]


def _section(name: str, key: Credentials) -> str:
    fields = {_ACCESS_KEY: key.access_key, _SECRET_KEY: key.secret_key}
    account = key.account
    if account != GATEWAY_ACCOUNT:
        fields |= {"user_id": account.user_id, "display_name": account.display_name}
        fields |= {"email": account.email} if account.email else {}
    return "".join((f"[{name}]\n", *(f"{field} = {text}\n" for field, text in fields.items())))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Each line with the section that it is in; "" before the first."""
    section = ""
    for line in text.splitlines(keepends=True):
        header = _HEADER.match(line)
        section = header[1] if header else section
        yield section, line


def _names(text: str) -> list[str]:
    return [section for section, line in _lines(text) if _HEADER.match(line)]


def _with_values(text: str, name: str, values: Mapping[str, str]) -> str:
    """The text with other values for fields that a section has."""

    def replaced(section: str, line: str) -> str:
        field = _FIELD.match(line)
        if section != name or not field or field[1].lower() not in values:
            return line
        return f"{field[0]} {values[field[1].lower()]}\n"

    return "".join(replaced(section, line) for section, line in _lines(text))


def _edit(path: Path, change: Callable[[str], str]) -> None:
    """Read, change, check and replace the file, while no other edit of ours does."""
    try:
        with _directory_locked(path.parent) as directory:
            there = path.exists()
            text = read_text(path)[0].decode("utf-8") if there else ""
            data = change(text).encode("utf-8")
            parse_sections(data, str(path))
            _replace(path, data, path.stat() if there else None)
            os.fsync(directory)
    except CredentialsFileError as error:
        raise KeyFileError(str(error)) from error
    except UnicodeDecodeError as error:
        raise KeyFileError(f"{path}: it is not UTF-8") from error
    except OSError as error:
        raise KeyFileError(f"{error.filename or path}: {error.strerror}") from error


@contextmanager
def _directory_locked(directory: Path) -> Iterator[int]:
    """The file is replaced, so that a lock of its own would go with it (flock(2))."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def _replace(path: Path, data: bytes, before: os.stat_result | None) -> None:
    """Whole and on the disk before it has the name; its owner stays who it was."""
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as stream:
            if before is not None and (before.st_uid, before.st_gid) != (
                os.geteuid(),
                os.getegid(),
            ):
                os.fchown(fd, before.st_uid, before.st_gid)
            stream.write(data)
            stream.flush()
            os.fsync(fd)
        hidden.replace(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
