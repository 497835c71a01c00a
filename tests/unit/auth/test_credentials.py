from __future__ import annotations

import re

from gateway.auth.credentials import (
    Credentials,
    CredentialStore,
    Scope,
    derive_signing_key,
    new_key,
)

SCOPE = Scope("20260101", "us-east-1", "s3")


def store(max_signing_keys: int = 2) -> CredentialStore:
    return CredentialStore(
        [Credentials("a", "secret-a"), Credentials("b", "secret-b")], max_signing_keys
    )


def test_lookup__known_and_unknown__gives_secret_or_none() -> None:
    assert store().lookup("a") == "secret-a"
    assert store().lookup("c") is None


def test_signing_key__unknown_key__is_none() -> None:
    assert store().signing_key("c", SCOPE) is None


def test_signing_key__asked_twice__is_the_same_object() -> None:
    keys = store()

    first = keys.signing_key("a", SCOPE)

    assert first == derive_signing_key("secret-a", SCOPE)
    assert keys.signing_key("a", SCOPE) is first


def test_signing_key__cache_full__forgets_the_oldest_and_makes_it_again() -> None:
    keys = store(max_signing_keys=2)
    first = keys.signing_key("a", SCOPE)
    for day in range(10, 30):
        keys.signing_key("b", Scope(f"202601{day}", "us-east-1", "s3"))

    again = keys.signing_key("a", SCOPE)

    assert again == first
    assert again is not first
    assert len(keys._signing_keys) == 2


def test_credentials__repr__hides_the_secret() -> None:
    assert "secret" not in repr(Credentials("a", "secret-a")).replace("secret_key", "")


def test_new_key__many__are_different_and_no_command_takes_one_for_an_option() -> None:
    keys = [new_key() for _ in range(1000)]
    assert len({key.access_key for key in keys} | {key.secret_key for key in keys}) == 2000
    assert all(re.fullmatch("[A-Z0-9]{20}", key.access_key) for key in keys)
    assert all(re.fullmatch("[A-Za-z0-9]{40}", key.secret_key) for key in keys)
