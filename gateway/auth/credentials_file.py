"""Access keys in a file of AWS's own format, looked at again while the gateway runs.

https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html

One section for each key: ``aws_access_key_id``, ``aws_secret_access_key``, and whose it is:
``user_id``, ``display_name``, ``email``. A section without user_id is the gateway's own account's.
"""

from __future__ import annotations

import configparser
import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from gateway.auth.credentials import Credentials
from gateway.auth.principal import GATEWAY_ACCOUNT, Account

MAX_BYTES = 1024 * 1024
LOOK_INTERVAL_S = 1.0  # at most so often the file is looked at

_log = logging.getLogger(__name__)


class CredentialsFileError(Exception):
    """The file can't be used; one line for the operator, without any of its content."""


class CredentialsFile:
    """The file, and what it looked like when it was last read.

    Args:
        path: readable by its owner alone.
        clock: seconds, monotonic.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._seen: tuple[int, ...] = ()
        self._next_look_s = clock() + LOOK_INTERVAL_S
        self._complaint = ""

    def read(self) -> tuple[Credentials, ...]:
        """All keys. Raises CredentialsFileError."""
        data, found = read_text(self._path)
        self._seen = _shape(found)
        return parse_credentials(data, str(self._path))

    def changed(self) -> tuple[Credentials, ...] | None:
        """All keys where the file is another than before, else None: also where it is broken.

        Then the old keys stay good, and the log says why.
        """
        if self._clock() < self._next_look_s:
            return None
        self._next_look_s = self._clock() + LOOK_INTERVAL_S
        try:
            if _shape(self._path.stat()) == self._seen:
                return None
            keys = self.read()
        except (OSError, CredentialsFileError) as error:
            self._complain(str(error))
            return None
        self._complaint = ""
        _log.info("%s was read again: %d keys", self._path, len(keys))
        return keys

    def look_again(self) -> None:
        """Read the file at the next request, changed or not (SIGHUP)."""
        self._seen = ()
        self._next_look_s = self._clock()

    def _complain(self, reason: str) -> None:
        """Once for each reason, not once for each look."""
        if reason != self._complaint:
            self._complaint = reason
            _log.error("the old access keys stay: %s", reason)


def read_text(path: Path) -> tuple[bytes, os.stat_result]:
    """The file's text, and what it looked like. Raises CredentialsFileError."""
    try:
        with path.open("rb") as stream:
            found = os.fstat(stream.fileno())
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise CredentialsFileError(f"{path}: {error.strerror or error}") from error
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CredentialsFileError(f"{path}: others may read it; chmod 600 it")
    if len(data) > MAX_BYTES:
        raise CredentialsFileError(f"{path}: longer than {MAX_BYTES} bytes")
    return data, found


def _shape(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode


def parse_credentials(data: bytes, name: str) -> tuple[Credentials, ...]:
    """The keys of a file's text, as `parse_sections` has them."""
    return tuple(parse_sections(data, name).values())


def parse_sections(data: bytes, name: str) -> dict[str, Credentials]:
    """The keys of a file's text, by the names of their sections, in order.

    Args:
        data: the text, UTF-8.
        name: the file's, for errors.

    Raises:
        CredentialsFileError: not INI, a section without a key or a secret, a key or a name of an
            account given twice in different ways, or no section at all.
    """
    parser = configparser.RawConfigParser(default_section="", delimiters=("=",))
    try:
        parser.read_string(data.decode("utf-8"))
    except (configparser.Error, ValueError) as error:
        # configparser's own text may quote the line at fault, and that may hold a secret.
        raise CredentialsFileError(f"{name}: {type(error).__name__}: it is no INI file") from None
    sections = dict(_keys(parser, name))
    keys = tuple(sections.values())
    if not keys:
        raise CredentialsFileError(f"{name}: it has no section, and so no key")
    if len({key.access_key for key in keys}) < len(keys):
        raise CredentialsFileError(f"{name}: an aws_access_key_id stands in two sections")
    _check_accounts(keys, name)
    return sections


def _keys(parser: configparser.RawConfigParser, name: str) -> Iterator[tuple[str, Credentials]]:
    for section in parser.sections():
        entry = parser[section]
        access_key = entry.get("aws_access_key_id", "")
        secret_key = entry.get("aws_secret_access_key", "")
        if not access_key or not secret_key:
            raise CredentialsFileError(
                f"{name}: section [{section}] needs aws_access_key_id and aws_secret_access_key"
            )
        user_id = entry.get("user_id", "")
        account = GATEWAY_ACCOUNT
        if user_id:
            account = Account(user_id, entry.get("display_name", user_id), entry.get("email", ""))
        yield section, Credentials(access_key, secret_key, account)


def _check_accounts(keys: tuple[Credentials, ...], name: str) -> None:
    """Two keys of one account must say the same of it, and an address must be one account's."""
    accounts = {key.account for key in keys}
    if len({account.user_id for account in accounts}) < len(accounts):
        raise CredentialsFileError(
            f"{name}: sections of one user_id differ in display_name or email"
        )
    addresses = [account.email.lower() for account in accounts if account.email]
    if len(set(addresses)) < len(addresses):
        raise CredentialsFileError(f"{name}: an email stands in sections of two accounts")
