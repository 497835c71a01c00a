"""One statement of a bucket policy, and what it says of a request. Pure.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from gateway.auth.conditions import Condition, Facts, Quantifier, parse_network
from gateway.auth.principal import Principal
from gateway.auth.wildcard import compile_pattern, is_literal

ANYONE = "*"
RESOURCE_PREFIX = "arn:aws:s3:::"

# Keys that tie a statement to somebody or somewhere where their values are fixed, and how many
# leading bits make a network a place. (meaning of "public", access-control-block-public-access)
_FIXING_KEYS = frozenset({"aws:principalarn", "aws:userid", "aws:sourceip"})
_FIXING_OPERATORS = frozenset({"StringEquals", "StringLike", "ArnEquals", "ArnLike", "IpAddress"})
_LEAST_PREFIX_BITS = {4: 8, 6: 32}


class Effect(Enum):
    """What a statement that matches does."""

    ALLOW = "Allow"
    DENY = "Deny"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a policy.

    Attributes:
        action: ``s3:GetObject``.
        resource: ``bucket`` or ``bucket/key``.
        facts: the condition keys that the request has.
    """

    principal: Principal
    action: str
    resource: str
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Named:
    """The patterns of Action or Resource, or of what they leave out (NotAction, NotResource)."""

    patterns: tuple[re.Pattern[str], ...]
    excluded: bool = False

    def covers(self, text: str) -> bool:
        """Whether the statement is about it."""
        found = any(pattern.fullmatch(text) for pattern in self.patterns)
        return found is not self.excluded


@dataclass(frozen=True, slots=True)
class Principals:
    """Whom a statement is about, or whom alone it leaves out (NotPrincipal).

    Attributes:
        anyone: "*" is among them.
        named: ARNs and canonical user ids.
    """

    anyone: bool
    named: frozenset[str] = frozenset()
    excluded: bool = False

    def cover(self, principal: Principal) -> bool:
        """Whether the statement is about them."""
        found = self.anyone or any(name in self.named for name in _names(principal))
        return found is not self.excluded


@dataclass(frozen=True, slots=True)
class Statement:
    """Parsed; see `gateway.auth.policy.parse_policy`."""

    effect: Effect
    principals: Principals
    actions: Named
    resources: Named
    conditions: tuple[Condition, ...] = ()

    def matches(self, question: Question) -> bool:
        """Whether the statement has something to say."""
        return (
            self.principals.cover(question.principal)
            and self.actions.covers(question.action)
            and self.resources.covers(RESOURCE_PREFIX + question.resource)
            and all(condition.holds(question.facts) for condition in self.conditions)
        )

    @property
    def public(self) -> bool:
        """Whether it lets in everybody from anywhere, as S3 means the word.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html
        """
        return (
            self.effect is Effect.ALLOW
            and (self.principals.anyone or self.principals.excluded)
            and not any(_fixes(condition) for condition in self.conditions)
        )


def root_arn(account_id: str) -> str:
    """A whole AWS account as a principal; here that is a tenant, or a user without one."""
    return f"arn:aws:iam::{account_id}:root"


def _names(principal: Principal) -> Iterator[str]:
    """Everything by which a policy may name a principal, except as anyone."""
    account = principal.account
    if account is None:
        return
    yield account.user_id
    yield account.arn
    yield root_arn(account.user_id.partition("$")[0])


def _fixes(condition: Condition) -> bool:
    """Whether a condition lets in a known few only."""
    if (
        condition.key not in _FIXING_KEYS
        or condition.operator not in _FIXING_OPERATORS
        or condition.negated
        or condition.if_exists
        or condition.quantifier is Quantifier.ALL
    ):
        return False
    if condition.operator == "IpAddress":
        networks = [parse_network(value) for value in condition.values]
        return all(net.prefixlen >= _LEAST_PREFIX_BITS[net.version] for net in networks)
    return all(is_literal(value) for value in condition.values)


def action_patterns(texts: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Actions don't heed case."""
    return tuple(compile_pattern(text, ignore_case=True) for text in texts)
