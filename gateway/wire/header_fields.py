"""Typed reading of named header fields: each exactly once, each error names field and range."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gateway.errors import GatewayError

Headers = tuple[tuple[str, str], ...]

_HEX = re.compile(r"[0-9A-Fa-f]+")
_DECIMAL = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class HeaderFields:
    """The fields of one message whose names begin with a prefix.

    Attributes:
        values: lower-case name to value.
        failure: makes the error to raise from (field name, reason); the reason never holds a value.
    """

    values: Mapping[str, str]
    failure: Callable[[str, str], GatewayError]

    @classmethod
    def collect(
        cls,
        headers: Iterable[tuple[str, str]],
        prefix: str,
        failure: Callable[[str, str], GatewayError],
    ) -> HeaderFields:
        """Take what begins with `prefix`, names in any case.

        Raises:
            GatewayError: `failure`'s, where a field comes twice.
        """
        values: dict[str, str] = {}
        for name, value in headers:
            key = name.lower()
            if not key.startswith(prefix):
                continue
            if key in values:
                raise failure(key, "it must be sent once")
            values[key] = value
        return cls(values, failure)

    def optional(self, name: str) -> str | None:
        """A field's text, or None where it is absent."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """A field's text. Raises `failure` where it is absent."""
        try:
            return self.values[name]
        except KeyError as error:
            raise self.failure(name, "it is required") from error

    def hex(self, name: str, max_digits: int, *, exact: bool = False, low: int = 0) -> int:
        """A number of 1 to `max_digits` bare hex digits, or `exact`-ly as many, >= `low`."""
        text = self.text(name)
        count = f"{max_digits}" if exact else f"1 to {max_digits}"
        if not _HEX.fullmatch(text) or len(text) > max_digits or (exact and len(text) < max_digits):
            raise self.failure(name, f"it must be {count} hex digits")
        value = int(text, 16)
        if value < low:
            raise self.failure(name, f"it must be {count} hex digits and not 0")
        return value

    def decimal(self, name: str, low: int, high: int) -> int:
        """A decimal number in [low, high]."""
        text = self.text(name)
        if not _DECIMAL.fullmatch(text) or not low <= int(text) <= high:
            raise self.failure(name, f"it must be a decimal number from {low} to {high}")
        return int(text)
