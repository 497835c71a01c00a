"""The access keys the gateway knows: configured, from a file, or made."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import string
import time
from pathlib import Path

from gateway.app.errors import StartError
from gateway.auth.credentials import Credentials, CredentialStore
from gateway.auth.credentials_file import CredentialsFile, CredentialsFileError
from gateway.config import Config

CREDENTIALS_FILE = "credentials"
_OR_SET = "or set S3RDMA_ACCESS_KEY and S3RDMA_SECRET_KEY"
_ACCESS_KEY_CHARACTERS = string.ascii_uppercase + string.digits


def load_credentials(config: Config) -> tuple[CredentialStore, Credentials | None]:
    """The configured key and file of keys; with neither the store's own file, made where missing.

    The files have the format of AWS's own, so AWS_SHARED_CREDENTIALS_FILE may point at them.

    Returns:
        The keys, and the one among them that was made now.

    Raises:
        StartError: a file can't be read, written or understood.
    """
    configured = [Credentials(config.access_key, config.secret_key)] if config.access_key else []
    if config.credentials_file:
        return _watched_credentials(Path(config.credentials_file), configured), None
    if configured:
        return CredentialStore(configured), None
    path = config.store.root / CREDENTIALS_FILE
    made = None if path.exists() else _make_credentials(path)
    return _watched_credentials(path, []), made


def _watched_credentials(path: Path, configured: list[Credentials]) -> CredentialStore:
    """The keys of a file that is read again when it changes, and at once at SIGHUP."""
    file = CredentialsFile(path, time.monotonic)

    def changed() -> list[Credentials] | None:
        keys = file.changed()
        return None if keys is None else [*keys, *configured]

    try:
        store = CredentialStore([*file.read(), *configured], changed=changed)
    except CredentialsFileError as error:
        raise StartError(f"{error}; repair it, {_OR_SET}") from error
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, file.look_again)
    return store


def _make_credentials(file: Path) -> Credentials:
    """A new key, kept in a file that only its owner may read."""
    made = Credentials(
        "".join(secrets.choice(_ACCESS_KEY_CHARACTERS) for _ in range(20)),
        secrets.token_urlsafe(30),
    )
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
