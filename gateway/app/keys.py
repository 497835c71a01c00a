"""The access keys the gateway knows: configured, from a file, or made."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gateway.app.errors import StartError
from gateway.app.reload import Reload
from gateway.auth.credentials import Credentials, CredentialStore, new_key
from gateway.auth.credentials_file import CredentialsFile, CredentialsFileError
from gateway.config import Config

CREDENTIALS_FILE = "credentials"
_OR_SET = "or set S3RDMA_ACCESS_KEY and S3RDMA_SECRET_KEY"


def own_file(config: Config) -> Path | None:
    """The store's own file of keys, which serves where none is configured; else None."""
    if config.access_key or config.credentials_file:
        return None
    return config.own_root / CREDENTIALS_FILE


def make_key(config: Config) -> Credentials | None:
    """Make a key where there is none at all, and keep it in the store's own file.

    Returns:
        What was made now; None where there is a key already.

    Raises:
        StartError: the file can't be written.
    """
    file = own_file(config)
    return None if file is None or file.exists() else _make_credentials(file)


def load_credentials(config: Config, reload: Reload) -> CredentialStore:
    """The configured key and file of keys; with neither, the store's own file.

    The files have the format of AWS's own, so AWS_SHARED_CREDENTIALS_FILE may point at them.

    Raises:
        StartError: a file can't be read or understood.
    """
    configured = [Credentials(config.access_key, config.secret_key)] if config.access_key else []
    file = own_file(config) or (Path(config.credentials_file) if config.credentials_file else None)
    if file is None:
        return CredentialStore(configured)
    return _watched_credentials(file, configured, reload)


def _watched_credentials(
    path: Path, configured: list[Credentials], reload: Reload
) -> CredentialStore:
    """The keys of a file that is read again when it changes, and at once at SIGHUP."""
    file = CredentialsFile(path, time.monotonic)

    def changed() -> list[Credentials] | None:
        keys = file.changed()
        return None if keys is None else [*keys, *configured]

    try:
        store = CredentialStore([*file.read(), *configured], changed=changed)
    except CredentialsFileError as error:
        raise StartError(f"{error}; repair it, {_OR_SET}") from error
    reload.on_reload(lambda _: file.look_again())
    return store


def _make_credentials(file: Path) -> Credentials:
    """A new key, kept in a file that only its owner may read."""
    made = new_key()
    try:
        _write_credentials(file, made)
    except OSError as error:
        raise StartError(f"{file}: {error.strerror or error}; {_OR_SET}") from error
    return made


def _write_credentials(file: Path, made: Credentials) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "w", encoding="utf-8") as stream:
        stream.write(
            f"[default]\naws_access_key_id = {made.access_key}\n"
            f"aws_secret_access_key = {made.secret_key}\n"
        )
        stream.flush()
        os.fsync(fd)
