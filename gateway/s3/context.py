"""What every verb is given besides its operation: the rooms it may call and who is asking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.auth.accounts import Accounts
from gateway.auth.principal import Principal
from gateway.config import HttpLimits
from gateway.s3.operations import Operation
from gateway.s3.requester import Requester
from gateway.storage.port import Storage


async def _permit(_operation: Operation) -> None:
    """Allow everything: for the verbs' own tests."""


@dataclass(frozen=True, slots=True)
class Context:
    """One request's surroundings.

    Attributes:
        storage: started, shared by all requests.
        requester: whose request this is; already authorised for the operation itself.
        region: the gateway's own, for location constraints.
        limits: bounds on keys, metadata and XML bodies.
        authorise: asks policy about a further operation that a request implies (each key of
            DeleteObjects, the source of a copy); raises AccessDenied.
        accounts: whom grants and owners may name.
    """

    storage: Storage
    requester: Requester
    region: str
    limits: HttpLimits = field(default_factory=HttpLimits)
    authorise: Callable[[Operation], Awaitable[None]] = _permit
    accounts: Accounts = field(default_factory=Accounts)

    @property
    def principal(self) -> Principal:
        """Who is asking, proved."""
        return self.requester.principal
