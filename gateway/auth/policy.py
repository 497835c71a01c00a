"""Bucket policies: the document parsed, and its verdict on a request. Pure.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-policy-language-overview.html
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html

What this gateway can't hold to the letter is refused when it is stored, never ignored later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from types import MappingProxyType
from typing import Any

from gateway.auth.actions import names_an_action
from gateway.auth.condition_keys import EXISTING_TAG, OF_BODIES, is_condition_key
from gateway.auth.conditions import Condition, ConditionError, parse_condition
from gateway.auth.statement import (
    ANYONE,
    RESOURCE_PREFIX,
    Effect,
    Named,
    Principals,
    Question,
    Statement,
    action_patterns,
    root_arn,
)
from gateway.auth.wildcard import PolicyVariableError, compile_pattern
from gateway.errors import ClientError, S3Code

MAX_POLICY_BYTES = 20 * 1024
MAX_WILDCARDS = 1000  # in a document; each makes its patterns dearer to compile (80 µs)

_VERSIONS = ("2012-10-17", "2008-10-17")
_FIELDS = frozenset({"Version", "Id", "Statement"})
_STATEMENT_FIELDS = frozenset(
    {"Sid", "Effect", "Condition"}
    | {f"{no}{name}" for no in ("", "Not") for name in ("Principal", "Action", "Resource")}
)
_EFFECTS: Mapping[str, Effect] = MappingProxyType({effect.value: effect for effect in Effect})

# Who may be named, by the kind of name; of two kinds nobody is here, so they match nobody.
_PRINCIPALS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "AWS": re.compile(
            r"\*|[0-9]{12}|arn:aws:(?:iam::[^:/*?]*:(?:root|(?:user|role)/[^*?:]+)"
            r"|sts::[^:/*?]*:(?:assumed-role|federated-user)/[^*?:]+)"
        ),
        "CanonicalUser": re.compile(r"[^*?\s]+"),
        "Federated": re.compile(r"[^*?\s]+"),
        "Service": re.compile(r"[a-z0-9.-]+\.amazonaws\.com"),
    }
)
_ACCOUNT_ID = re.compile(r"[0-9]{12}")  # short for the account's root
_OUTSIDERS = frozenset({"Federated", "Service"})


class Verdict(Enum):
    """What a policy says of a request; a denial anywhere outweighs every permission."""

    ALLOW = "allow"
    DENY = "deny"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Policy:
    """A bucket's policy.

    Attributes:
        public: whether it lets in everybody from anywhere (policyStatus).
        reads_tags: whether a verdict may hang on the tags that an object has.
        reads_bodies: whether one may hang on what a request's document says.
    """

    statements: tuple[Statement, ...]
    public: bool
    reads_tags: bool
    reads_bodies: bool

    def judge(self, question: Question) -> Verdict:
        """The verdict on one action."""
        effects = {one.effect for one in self.statements if one.matches(question)}
        if Effect.DENY in effects:
            return Verdict.DENY
        return Verdict.ALLOW if Effect.ALLOW in effects else Verdict.SILENT


def parse_policy(text: str, bucket: str) -> Policy:
    """Read a policy document.

    Args:
        text: JSON, at most MAX_POLICY_BYTES in UTF-8.
        bucket: whose policy it is; resources must lie in it.

    Raises:
        ClientError: MalformedPolicy, saying what is wrong.
    """
    document = _load(text)
    _only(document, _FIELDS)
    if document.get("Version", _VERSIONS[-1]) not in _VERSIONS:
        raise malformed("The policy must contain a valid version string")
    found = _statements(document.get("Statement"))
    ids = [sid for one in found if (sid := one.get("Sid")) is not None]
    if not all(isinstance(sid, str) for sid in ids) or len(set(ids)) < len(ids):
        raise malformed("Statement IDs (SID) in a single policy must be unique.")
    statements = tuple(_statement(one, bucket) for one in found)
    conditions = chain.from_iterable(one.conditions for one in statements)
    keys = {condition.key for condition in conditions}
    return Policy(
        statements,
        public=any(one.public for one in statements),
        reads_tags=any(key.startswith(EXISTING_TAG) for key in keys),
        reads_bodies=any(key.startswith(OF_BODIES) for key in keys),
    )


def malformed(message: str) -> ClientError:
    """MalformedPolicy."""
    return ClientError(S3Code.MALFORMED_POLICY, message)


def _load(text: str) -> dict[str, Any]:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_POLICY_BYTES:
        raise malformed(
            f"Policy exceeds the maximum allowed document size of {MAX_POLICY_BYTES} bytes."
        )
    if not text.startswith("{"):
        raise malformed("Policies must be valid JSON and the first byte must be '{'")
    try:
        loaded = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise malformed("This policy contains invalid Json") from error
    if not isinstance(loaded, dict):
        raise malformed("This policy contains invalid Json")
    unescaped = json.dumps(loaded, ensure_ascii=False)
    if sum(map(unescaped.count, "*?")) > MAX_WILDCARDS:
        raise malformed(f"A policy has at most {MAX_WILDCARDS} wildcards")
    return loaded


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers of a field that is there twice could take it in two ways."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field is repeated")
    return found


def _only(given: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(given.keys() - known)
    if unknown:
        raise malformed(f"Unknown field {unknown[0][:128]}")


def _statements(given: Any) -> list[dict[str, Any]]:
    """One statement, or a list of some."""
    found = given if isinstance(given, list) else [given]
    if not found or not all(isinstance(one, dict) for one in found):
        raise malformed("Could not parse the policy: Statement is empty!")
    return found


def _statement(given: dict[str, Any], bucket: str) -> Statement:
    _only(given, _STATEMENT_FIELDS)
    effect = _effect(given.get("Effect"))
    principals = _principals(*_either(given, "Principal"))
    if principals.excluded and effect is Effect.ALLOW:
        raise malformed("Allow with NotPrincipal is not allowed.")
    try:
        return Statement(
            effect,
            principals,
            actions=_actions(*_either(given, "Action")),
            resources=_resources(*_either(given, "Resource"), bucket),
            conditions=tuple(_conditions(given.get("Condition", {}))),
        )
    except PolicyVariableError as error:
        raise malformed(f"Policy variables are not implemented: {str(error)[:128]}") from error


def _effect(given: Any) -> Effect:
    if given is None:
        raise malformed("Missing required field Effect")
    effect = _EFFECTS.get(given) if isinstance(given, str) else None
    if effect is None:
        raise malformed(f"Invalid effect: {str(given)[:64]}")
    return effect


def _either(given: Mapping[str, Any], name: str) -> tuple[Any, bool]:
    """What stands under a name or under its negation, and whether it is the negation."""
    present = [key for key in (name, f"Not{name}") if key in given]
    if not present:
        raise malformed(f"Missing required field {name}")
    if len(present) > 1:
        raise malformed(f"{name} and Not{name} exclude each other in a statement")
    return given[present[0]], present[0] != name


def _texts(given: Any, what: str) -> tuple[str, ...]:
    """One text or a list of some."""
    found = given if isinstance(given, list) else [given]
    if not found or not all(isinstance(one, str) and one for one in found):
        raise malformed(f"Policy has invalid {what}")
    return tuple(found)


def _principals(given: Any, excluded: bool) -> Principals:
    if given == ANYONE:
        return Principals(anyone=True, excluded=excluded)
    if not isinstance(given, dict) or not given:
        raise malformed("Invalid policy syntax.")
    named: set[str] = set()
    for kind, names in given.items():
        shape = _PRINCIPALS.get(kind)
        texts = _texts(names, "principal")
        if shape is None or not all(shape.fullmatch(name) for name in texts):
            raise malformed("Invalid principal in policy")
        if kind not in _OUTSIDERS:
            named.update(root_arn(name) if _ACCOUNT_ID.fullmatch(name) else name for name in texts)
    return Principals(ANYONE in named, frozenset(named - {ANYONE}), excluded)


def _actions(given: Any, excluded: bool) -> Named:
    texts = _texts(given, "action")
    if not all(names_an_action(text) for text in texts):
        raise malformed("Policy has invalid action")
    return Named(action_patterns(texts), excluded)


def _resources(given: Any, excluded: bool, bucket: str) -> Named:
    texts = _texts(given, "resource")
    for text in texts:
        named = text.removeprefix(RESOURCE_PREFIX).partition("/")[0]
        if not text.startswith(RESOURCE_PREFIX) or not compile_pattern(named).fullmatch(bucket):
            raise malformed("Policy has invalid resource")
    return Named(tuple(compile_pattern(text) for text in texts), excluded)


def _conditions(given: Any) -> Iterator[Condition]:
    if not isinstance(given, dict):
        raise malformed("Invalid policy syntax.")
    for operator, keys in given.items():
        if not isinstance(keys, dict):
            raise malformed("Invalid policy syntax.")
        for key, values in keys.items():
            if not is_condition_key(key.lower()):
                raise malformed(f"Policy has an invalid condition key: {key[:128]}")
            try:
                yield parse_condition(operator, key, tuple(_values(values)))
            except ConditionError as error:
                raise malformed(str(error)) from error


def _values(given: Any) -> Iterator[str]:
    """A condition's values as texts: JSON's own Booleans and numbers are as good."""
    found = given if isinstance(given, list) else [given]
    if not found:
        raise malformed("Invalid policy syntax.")
    for one in found:
        match one:
            case bool():
                yield str(one).lower()
            case str() | int() | float():
                yield str(one)
            case _:
                raise malformed("Invalid policy syntax.")
