from __future__ import annotations

from gateway.auth.accounts import Accounts
from gateway.auth.principal import (
    ANONYMOUS,
    ANONYMOUS_ID,
    GATEWAY_ACCOUNT,
    OWNER_ID,
    Account,
    Principal,
)

ALICE = Account("alice", "Alice", "Alice@example.com")
BOB = Account("acme$bob", "Bob")


def test_accounts__by_id__finds_also_the_gateways_own() -> None:
    accounts = Accounts([ALICE, BOB])
    assert accounts.by_id("alice") == ALICE
    assert accounts.by_id("") == accounts.by_id(OWNER_ID) == GATEWAY_ACCOUNT
    assert accounts.by_id("nobody") is None


def test_accounts__by_email__heeds_no_case_and_finds_none_without_one() -> None:
    accounts = Accounts([ALICE, BOB])
    assert accounts.by_email("ALICE@EXAMPLE.COM") == ALICE
    assert accounts.by_email("") is None


def test_accounts__the_gateways_own_configured__keeps_its_name() -> None:
    named = Account(OWNER_ID, "shopkeeper")
    assert Accounts([named]).by_id("") == named


def test_account__arn__names_tenant_and_user() -> None:
    assert ALICE.arn == "arn:aws:iam:::user/alice"
    assert BOB.arn == "arn:aws:iam::acme:user/bob"


def test_principal__user_id__is_the_accounts_or_the_gateways_or_nobodys() -> None:
    assert Principal("AKIA", ALICE).user_id == "alice"
    assert Principal("AKIA").user_id == OWNER_ID
    assert ANONYMOUS.user_id == ANONYMOUS_ID
