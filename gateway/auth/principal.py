"""Who a request is from, once that is proved."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of a verified signature; `access_key` is None for an anonymous request."""

    access_key: str | None

    @property
    def anonymous(self) -> bool:
        return self.access_key is None
