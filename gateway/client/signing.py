"""Signature Version 4 of the client's requests, with keys from botocore's credentials chain.

The text that is signed is made by the functions that the gateway verifies with; the signing key
is derived once a day. botocore's own signer takes eight times as long.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

from botocore.credentials import Credentials, ReadOnlyCredentials, RefreshableCredentials
from botocore.exceptions import BotoCoreError
from botocore.session import Session

from gateway.auth.canonical import canonical_request
from gateway.auth.chunks import EMPTY_SHA256
from gateway.auth.claim import ALGORITHM
from gateway.auth.credentials import Scope, derive_signing_key, sign
from gateway.auth.payload import PayloadMode
from gateway.auth.sigv4 import SERVICE, string_to_sign
from gateway.client.errors import CredentialsError
from gateway.wire.request import RequestHead

DEFAULT_REGION = "us-east-1"

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class _DayKey:
    """A signing key, and what it was derived from."""

    secret_key: str = field(repr=False)
    scope: Scope
    key: bytes = field(repr=False)


class Signer:
    """Signs requests for one region."""

    def __init__(self, credentials: Credentials, region: str) -> None:
        self._credentials = credentials
        self.region = region
        self._day_key: _DayKey | None = None

    async def sign(
        self, method: str, url: str, headers: Mapping[str, str], payload: bytes | None
    ) -> dict[str, str]:
        """The headers to send: those given, all of them signed, and the signature's own.

        `url` is absolute and percent-encoded, exactly as it will stand on the wire. `payload` is
        hashed into the signature; None signs ``UNSIGNED-PAYLOAD``.

        Raises:
            CredentialsError: they could not be refreshed.
        """
        credentials = await self._frozen()
        timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        content = PayloadMode.UNSIGNED.value if payload is None else _sha256(payload)
        whole = {
            **headers,
            "Host": _host(url),
            "X-Amz-Date": timestamp,
            "X-Amz-Content-SHA256": content,
        }
        if credentials.token:
            whole["X-Amz-Security-Token"] = credentials.token
        day_key = self._key_of(credentials, timestamp[:8])
        head = _head(method, url, whole)
        names = [name for name, _ in head.headers]
        text = string_to_sign(timestamp, day_key.scope, canonical_request(head, names, content))
        whole["Authorization"] = (
            f"{ALGORITHM} Credential={credentials.access_key}/{day_key.scope.text}, "
            f"SignedHeaders={';'.join(names)}, Signature={sign(day_key.key, text)}"
        )
        return whole

    def _key_of(self, credentials: ReadOnlyCredentials, date: str) -> _DayKey:
        """The day's signing key: four HMACs, once a day and secret."""
        known = self._day_key
        if known and known.scope.date == date and known.secret_key == credentials.secret_key:
            return known
        scope = Scope(date, self.region, SERVICE)
        key = derive_signing_key(credentials.secret_key, scope)
        self._day_key = made = _DayKey(credentials.secret_key, scope, key)
        return made

    async def _frozen(self) -> ReadOnlyCredentials:
        try:
            if isinstance(self._credentials, RefreshableCredentials):
                # A refresh may ask an identity service over the network.
                return await asyncio.to_thread(self._credentials.get_frozen_credentials)
            return self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise CredentialsError(f"the credentials could not be refreshed: {error}") from error


def load_signer(credentials: Credentials | None, region: str | None, profile: str | None) -> Signer:
    """A signer from what the caller gave, else from botocore's chain. May block: files, network.

    Raises:
        CredentialsError: nothing in the chain, or an unreadable configuration.
    """
    try:
        session = Session(profile=profile)
        found = credentials or session.get_credentials()
        region = region or session.get_config_variable("region") or DEFAULT_REGION
    except BotoCoreError as error:
        raise CredentialsError(f"the AWS configuration can't be used: {error}") from error
    if found is None:
        raise CredentialsError(
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile "
            "of ~/.aws/credentials with --profile"
        )
    return Signer(found, region)


def _head(method: str, url: str, headers: Mapping[str, str]) -> RequestHead:
    """The request as it will stand on the wire: text as UTF-8 bytes; the headers by name."""
    parts = urlsplit(url)
    fields = sorted((name.lower(), _on_the_wire(value)) for name, value in headers.items())
    return RequestHead(method, parts.path, parts.query, tuple(fields))


def _on_the_wire(value: str) -> str:
    return value if value.isascii() else value.encode().decode("latin-1")


@lru_cache(maxsize=16)
def _host_of(origin: str) -> str:
    parts = urlsplit(origin)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    plain = parts.port in (None, _DEFAULT_PORTS.get(parts.scheme))
    return host if plain else f"{host}:{parts.port}"


def _host(url: str) -> str:
    """The Host field of a request to `url`: without the scheme's own port (RFC 9110 7.2)."""
    return _host_of(url[: url.index("/", url.index("://") + 3)])


def _sha256(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest() if payload else EMPTY_SHA256
