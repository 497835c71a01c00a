"""Access keys, their secrets, the signing keys made from them, and what those sign."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gateway.auth.accounts import Accounts
from gateway.auth.principal import GATEWAY_ACCOUNT, Account, Principal

TERMINATOR = "aws4_request"
_ACCESS_KEY_CHARACTERS = string.ascii_uppercase + string.digits
_SECRET_CHARACTERS = string.ascii_letters + string.digits  # no "-": it may be an argument
MAX_SIGNING_KEYS = 256  # in the cache; one per access key, day and region in use


@dataclass(frozen=True, slots=True)
class Credentials:
    """One access key with its secret, which never appears in a repr."""

    access_key: str
    secret_key: str = field(repr=False)
    account: Account = GATEWAY_ACCOUNT


def new_key(account: Account = GATEWAY_ACCOUNT) -> Credentials:
    """A key that nobody has had before: 103 and 238 bits by the system's generator."""
    access_key = "".join(secrets.choice(_ACCESS_KEY_CHARACTERS) for _ in range(20))
    secret_key = "".join(secrets.choice(_SECRET_CHARACTERS) for _ in range(40))
    return Credentials(access_key, secret_key, account)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a signing key is good for: one UTC day (YYYYMMDD), region and service."""

    date: str
    region: str
    service: str

    @property
    def text(self) -> str:
        """The credential scope of the string to sign."""
        return f"{self.date}/{self.region}/{self.service}/{TERMINATOR}"


Changed = Callable[[], "Iterable[Credentials] | None"]
"""Asked often: all credentials anew where they have changed, else None."""


def _never_changed() -> None:
    return None


class CredentialStore:
    """The credentials that are good now.

    Args:
        credentials: no access key twice.
        max_signing_keys: > 0; the oldest is forgotten first, and made again when it is needed.
        changed: asked before each look-up of a key; what it answers replaces everything.
    """

    def __init__(
        self,
        credentials: Iterable[Credentials],
        max_signing_keys: int = MAX_SIGNING_KEYS,
        changed: Changed = _never_changed,
    ) -> None:
        self._max_signing_keys = max_signing_keys
        self._changed = changed
        self._signing_keys: dict[tuple[str, Scope], bytes] = {}
        self._replace(credentials)

    @property
    def accounts(self) -> Accounts:
        """Whom the credentials belong to."""
        return self._accounts

    def lookup(self, access_key: str) -> str | None:
        """The secret of an access key, or None where it is unknown. Never compare it: sign."""
        changed = self._changed()
        if changed is not None:
            self._replace(changed)
        entry = self._entries.get(access_key)
        return None if entry is None else entry.secret_key

    def principal(self, access_key: str) -> Principal:
        """Who signs with an access key that was just found."""
        return Principal(access_key, self._entries[access_key].account)

    def _replace(self, credentials: Iterable[Credentials]) -> None:
        self._entries = {entry.access_key: entry for entry in credentials}
        self._accounts = Accounts(entry.account for entry in self._entries.values())
        self._signing_keys.clear()

    def signing_key(self, access_key: str, scope: Scope) -> bytes | None:
        """The signing key of an access key for a scope, or None where the key is unknown.

        Four HMACs, done once per key, day and region: check the scope before, so that no client
        can fill the cache with scopes that can't be valid.
        """
        secret_key = self.lookup(access_key)
        if secret_key is None:
            return None
        known = self._signing_keys.get((access_key, scope))
        if known is not None:
            return known
        if len(self._signing_keys) >= self._max_signing_keys:
            del self._signing_keys[next(iter(self._signing_keys))]
        made = derive_signing_key(secret_key, scope)
        self._signing_keys[access_key, scope] = made
        return made


def derive_signing_key(secret_key: str, scope: Scope) -> bytes:
    """SigV4's key derivation: secret → date → region → service → terminator."""
    key = f"AWS4{secret_key}".encode()
    for part in (scope.date, scope.region, scope.service, TERMINATOR):
        key = hmac.digest(key, part.encode(), hashlib.sha256)
    return key


def sign(signing_key: bytes, text: str) -> str:
    """A signature: HMAC-SHA256 in lower-case hex. Compare it with `hmac.compare_digest` only."""
    return hmac.digest(signing_key, text.encode(), hashlib.sha256).hex()
