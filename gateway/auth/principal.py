"""Who a request is from, once that is proved."""

from __future__ import annotations

from dataclasses import dataclass

# S3's canonical user ids are 64 hex digits, and never change once anything is stored under them.
OWNER_ID = "5e0f7f3c2d1b49a8867a4c0b1d2e3f405162738495a6b7c8d9eaf0b1c2d3e4f5"
ANONYMOUS_ID = "65a011a29cdf8ec533ec3d1ccaae921c"  # S3's own name of nobody


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns buckets and objects; several access keys may be one account's.

    Attributes:
        user_id: the canonical user id of grants and owners; policies name it by `arn`.
        display_name: for owners in lists.
        email: for grants that name a grantee so; "" where it has none.
    """

    user_id: str
    display_name: str
    email: str = ""

    @property
    def arn(self) -> str:
        """The account as a policy's principal; an id ``tenant$name`` is that tenant's user."""
        tenant, separator, name = self.user_id.partition("$")
        return f"arn:aws:iam::{tenant if separator else ''}:user/{name or tenant}"


GATEWAY_ACCOUNT = Account(OWNER_ID, "s3rdma")
"""The one that owns what was made without any other: records with an empty owner."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of a verified signature; `access_key` is None for an anonymous request.

    `account` is None for an anonymous request; an access key without one is the gateway's own.
    """

    access_key: str | None
    account: Account | None = None

    @property
    def anonymous(self) -> bool:
        return self.access_key is None

    @property
    def user_id(self) -> str:
        """The canonical user id that owns what this principal makes."""
        if self.account is not None:
            return self.account.user_id
        return ANONYMOUS_ID if self.anonymous else OWNER_ID


ANONYMOUS = Principal(None)
