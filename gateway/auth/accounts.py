"""The accounts that exist: whom a grant or an owner may name."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.auth.principal import GATEWAY_ACCOUNT, Account


class Accounts:
    """Every account that an access key belongs to, and the gateway's own. Never changes.

    Args:
        accounts: of one user id the first counts.
    """

    def __init__(self, accounts: Iterable[Account] = ()) -> None:
        self._by_id: dict[str, Account] = {}
        self._by_email: dict[str, Account] = {}
        for account in (*accounts, GATEWAY_ACCOUNT):
            self._by_id.setdefault(account.user_id, account)
            if account.email:
                self._by_email.setdefault(account.email.lower(), account)

    def by_id(self, user_id: str) -> Account | None:
        """The account of a canonical user id; "" is the gateway's own, as in stored records."""
        return self._by_id.get(user_id or GATEWAY_ACCOUNT.user_id)

    def by_email(self, email: str) -> Account | None:
        """The account of an e-mail address, whatever its case."""
        return self._by_email.get(email.lower())
