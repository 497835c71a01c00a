"""Condition operators of bucket policies: parsed when the policy is stored, tested per request.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html

A key that a request does not have makes an operator false, its negation true, and either true with
IfExists. A key may have several values (the tags of a request): without a set operator one that
matches is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from math import isfinite

from gateway.auth.wildcard import compile_pattern

Facts = Mapping[str, tuple[str, ...]]
"""Condition key, in lower case, to its values; an absent key is not there."""

Network = IPv4Network | IPv6Network
Test = Callable[[str], bool]
"""Whether one value of a request matches one value of a policy."""

_ARN_PARTS = 6
_LAST_SECOND = 253_402_300_799  # of the year 9999, which datetime ends with


class ConditionError(ValueError):
    """A condition that can't be stored; the text is the policy error's."""


class Quantifier(Enum):
    """How the values of a key that has several are counted; the value is the prefix."""

    ONE = ""
    ALL = "ForAllValues:"
    ANY = "ForAnyValue:"


@dataclass(frozen=True, slots=True)
class Condition:
    """One operator on one key.

    Attributes:
        key: lower case.
        operator: its base name, "StringEquals"; a negated one stands under what it negates.
        negated: whether none of the values may match.
        if_exists: a request without the key passes.
        values: as they were written.
        tests: one for each value.
    """

    key: str
    operator: str
    negated: bool
    if_exists: bool
    quantifier: Quantifier
    values: tuple[str, ...]
    tests: tuple[Test, ...]

    def holds(self, facts: Facts) -> bool:
        """Whether a request passes."""
        given = facts.get(self.key)
        if self.operator == _NULL:
            return any(test("true" if given is None else "false") for test in self.tests)
        if not given:
            return self.if_exists or self.negated or self.quantifier is Quantifier.ALL
        match self.quantifier:
            case Quantifier.ALL:
                return all(self._matches(value) for value in given)
            case Quantifier.ANY:
                return any(self._matches(value) for value in given)
        if self.negated:
            return all(self._matches(value) for value in given)
        return any(self._matches(value) for value in given)

    def _matches(self, value: str) -> bool:
        return any(test(value) for test in self.tests) is not self.negated


def parse_condition(operator: str, key: str, values: tuple[str, ...]) -> Condition:
    """One operator, key and values of a policy.

    Args:
        operator: ``ForAnyValue:StringLikeIfExists``.
        key: in any case; whether there is such a key is the caller's to say.
        values: texts; at least one must match.

    Raises:
        ConditionError: an unknown operator, or a value that it can't take.
        PolicyVariableError: a pattern with a variable.
    """
    quantifier, rest = _quantifier(operator)
    if_exists = rest.endswith("IfExists") and rest != f"{_NULL}IfExists"
    name = rest.removesuffix("IfExists") if if_exists else rest
    base, negated = _NEGATED.get(name, name), name in _NEGATED
    make = _OPERATORS.get(base)
    if make is None or (base == _NULL and quantifier is not Quantifier.ONE):
        raise ConditionError(f"Invalid Condition type : {operator}")
    return Condition(
        key=key.lower(),
        operator=base,
        negated=negated,
        if_exists=if_exists,
        quantifier=quantifier,
        values=values,
        tests=tuple(make(value) for value in values),
    )


def _quantifier(operator: str) -> tuple[Quantifier, str]:
    for quantifier in (Quantifier.ALL, Quantifier.ANY):
        if operator.startswith(quantifier.value):
            return quantifier, operator.removeprefix(quantifier.value)
    return Quantifier.ONE, operator


def parse_network(text: str) -> Network:
    """An address or a range. Raises ConditionError."""
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ConditionError(f"Invalid IP address or CIDR in a condition: {text[:64]}") from error


def _equals(value: str) -> Test:
    return value.__eq__


def _equals_ignoring_case(value: str) -> Test:
    folded = value.casefold()
    return lambda given: given.casefold() == folded


def _like(value: str) -> Test:
    pattern = compile_pattern(value)
    return lambda given: pattern.fullmatch(given) is not None


def _arn_like(value: str) -> Test:
    """Part by part: a star of an ARN's fifth part does not reach into its sixth."""
    parts = value.split(":", _ARN_PARTS - 1)
    if len(parts) != _ARN_PARTS or parts[0] != "arn":
        raise ConditionError(f"Invalid ARN in a condition: {value[:128]}")
    patterns = [compile_pattern(part) for part in parts]

    def test(given: str) -> bool:
        given_parts = given.split(":", _ARN_PARTS - 1)
        return len(given_parts) == _ARN_PARTS and all(
            pattern.fullmatch(part) for pattern, part in zip(patterns, given_parts, strict=True)
        )

    return test


def _boolean(value: str) -> Test:
    wanted = value.lower()
    if wanted not in ("true", "false"):
        raise ConditionError(f"Invalid Boolean in a condition: {value[:64]}")
    return lambda given: given.lower() == wanted


def _ip_address(value: str) -> Test:
    network = parse_network(value)

    def test(given: str) -> bool:
        try:
            address = ip_address(given)
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return address in network

    return test


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _moment(text: str) -> float | None:
    """POSIX seconds, from themselves or from ISO 8601 (without a zone it is UTC)."""
    seconds = _number(text)
    if seconds is None:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.timestamp()
    return seconds if abs(seconds) <= _LAST_SECOND else None


def _ordered(
    read: Callable[[str], float | None], kind: str, holds: Callable[[float, float], bool]
) -> Callable[[str], Test]:
    """The maker of tests that compare what both sides read as."""

    def make(value: str) -> Test:
        wanted = read(value)
        if wanted is None:
            raise ConditionError(f"Invalid {kind} in a condition: {value[:64]}")

        def test(given: str) -> bool:
            found = read(given)
            return found is not None and holds(found, wanted)

        return test

    return make


_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "Equals": float.__eq__,
    "LessThan": float.__lt__,
    "LessThanEquals": float.__le__,
    "GreaterThan": float.__gt__,
    "GreaterThanEquals": float.__ge__,
}
_NULL = "Null"
_OPERATORS: Mapping[str, Callable[[str], Test]] = {
    "StringEquals": _equals,
    "StringEqualsIgnoreCase": _equals_ignoring_case,
    "StringLike": _like,
    "ArnEquals": _arn_like,  # AWS: the two behave identically
    "ArnLike": _arn_like,
    "Bool": _boolean,
    "IpAddress": _ip_address,
    _NULL: _boolean,
    **{f"Numeric{name}": _ordered(_number, "number", fn) for name, fn in _COMPARISONS.items()},
    **{f"Date{name}": _ordered(_moment, "date", fn) for name, fn in _COMPARISONS.items()},
}
_NEGATED = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NotIpAddress": "IpAddress",
    "NumericNotEquals": "NumericEquals",
    "DateNotEquals": "DateEquals",
}
