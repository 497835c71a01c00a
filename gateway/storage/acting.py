"""Who a storage is asked for: set once a request's signature is verified, before the first look.

Only a driver that signs with its users' own keys looks at it; tasks made for a request inherit it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    """An access key that the gateway knows, None for an anonymous request, and whose it is."""

    access_key: str | None = None
    user_id: str = ""


GATEWAY = Actor("")
"""The gateway itself, which asks on nobody's behalf."""
_NOBODY = Actor()
ACTOR: ContextVar[Actor] = ContextVar("actor", default=_NOBODY)
