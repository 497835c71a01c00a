"""The policy of a POST form: who signed it, and whether the form keeps to it. Pure.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-HTTPPOSTConstructPolicy.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-post-example.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/HTTPPOSTForms.html (version 2)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.auth.claim import (
    ALGORITHM,
    MAX_EXPIRES_S,
    checked_signature,
    parse_credential,
    parse_timestamp,
)
from gateway.auth.credentials import CredentialStore, sign
from gateway.auth.principal import ANONYMOUS, Principal
from gateway.auth.sigv4 import MAX_SKEW_S, SERVICE, check_scope
from gateway.errors import ClientError, S3Code

Fields = Mapping[str, str]
"""Form fields by lower-case name; "bucket" is the bucket that the form was sent to."""

_EXPIRATION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z")
_MAX_SIZE = 2**63 - 1

# Fields that prove the policy and so can't be named by it, and those that can only make an
# upload fail.
PROOFS = frozenset({"awsaccesskeyid", "file", "policy", "signature", "x-amz-signature"})
_FREE_PREFIXES = ("x-ignore-", "x-amz-checksum-")


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """What a field must be, or begin with."""

    field: str
    value: str
    prefix: bool

    def holds(self, fields: Fields) -> bool:
        """A field that is not there is as good as an empty one."""
        given = fields.get(self.field, "")
        if not self.prefix:
            return given == self.value
        if self.field == "content-type":  # a list of types, each of which must keep to it
            return all(one.strip().startswith(self.value) for one in given.split(","))
        return given.startswith(self.value)

    @property
    def text(self) -> str:
        """As a policy spells it."""
        operator = "starts-with" if self.prefix else "eq"
        return json.dumps([operator, f"${self.field}", self.value])


@dataclass(frozen=True, slots=True)
class SizeRange:
    """How long the file may be, both ends included."""

    least_bytes: int = 0
    most_bytes: int = _MAX_SIZE


@dataclass(frozen=True, slots=True)
class PostPolicy:
    """A form's policy, parsed."""

    expires_s: float
    conditions: tuple[FieldCondition, ...]
    size: SizeRange

    def check(self, fields: Fields, now_s: float) -> None:
        """Hold a form to it.

        Raises:
            ClientError: AccessDenied: it is over, a condition fails, or a field has none.
        """
        if now_s >= self.expires_s:
            raise _denied("Policy expired.")
        for condition in self.conditions:
            if not condition.holds(fields):
                raise _denied(f"Policy Condition failed: {condition.text}")
        named = PROOFS | {condition.field for condition in self.conditions}
        extra = [name for name in fields if name not in named and not _free(name)]
        if extra:
            raise _denied(f"Extra input fields: {extra[0]}")


@dataclass(frozen=True, slots=True)
class FormProof:
    """Who sent a form, and how long its file may be.

    Attributes:
        signature_version: S3's word, as a bucket policy's condition key has it; "" of nobody.
    """

    principal: Principal
    signature_version: str = ""
    size: SizeRange = SizeRange()


def prove_form(
    fields: Fields, credentials: CredentialStore, now_s: float, region: str
) -> FormProof:
    """Prove who sent a form, and that it keeps to its policy; without either it is anonymous.

    Args:
        fields: all, the file left out.
        credentials: who may sign.
        now_s: POSIX seconds.
        region: the only one that a credential scope may name.

    Raises:
        ClientError: AccessDenied, InvalidAccessKeyId, InvalidArgument, InvalidPolicyDocument,
            SignatureDoesNotMatch.
    """
    version4 = any(name in fields for name in ("x-amz-signature", "x-amz-credential"))
    version2 = any(name in fields for name in ("signature", "awsaccesskeyid"))
    if not version4 and not version2 and "policy" not in fields:
        return FormProof(ANONYMOUS)
    prove = _prove_version_4 if version4 else _prove_version_2
    principal = prove(fields, credentials, now_s, region)
    policy = parse_post_policy(_required(fields, "policy"))
    policy.check(fields, now_s)
    return FormProof(principal, ALGORITHM if version4 else "AWS", policy.size)


def parse_post_policy(encoded: str) -> PostPolicy:
    """Read a policy document.

    Args:
        encoded: base64 of its JSON.

    Raises:
        ClientError: InvalidPolicyDocument, saying what is wrong.
    """
    try:
        loaded = json.loads(base64.b64decode(encoded, validate=True).decode("utf-8"))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise _invalid("Invalid JSON.") from error
    if not isinstance(loaded, dict):
        raise _invalid("Invalid JSON.")
    conditions = loaded.get("conditions")
    if not isinstance(conditions, list):
        raise _invalid("Policy missing conditions.")
    found: list[FieldCondition] = []
    size = SizeRange()
    for condition in conditions:
        match condition:
            case dict() if condition:
                found.extend(_equal(name, value) for name, value in condition.items())
            case [str(operator), str(name), str(value)] if name.startswith("$"):
                found.append(FieldCondition(name[1:].lower(), value, _is_prefix(operator)))
            case [str(operator), int(least), int(most)]:
                size = _narrowed(size, operator, least, most)
            case _:
                raise _invalid("Invalid condition.")
    return PostPolicy(_expiration(loaded.get("expiration")), tuple(found), size)


def _expiration(given: Any) -> float:
    """POSIX seconds; ISO 8601 in UTC is the one form."""
    if given is None:
        raise _invalid("Policy missing expiration.")
    fault = _invalid(f"Invalid 'expiration' value: '{str(given)[:64]}'")
    if not isinstance(given, str) or not _EXPIRATION.fullmatch(given):
        raise fault
    try:
        return datetime.fromisoformat(given).timestamp()
    except ValueError as error:
        raise fault from error


def _equal(name: Any, value: Any) -> FieldCondition:
    if not isinstance(value, str):
        raise _invalid("Invalid simple-condition: value must be a string.")
    return FieldCondition(str(name).lower(), value, prefix=False)


def _is_prefix(operator: str) -> bool:
    match operator.lower():
        case "starts-with":
            return True
        case "eq":
            return False
        case _:
            raise _invalid(f"Unknown operator: {operator[:64]}")


def _narrowed(size: SizeRange, operator: str, least: int, most: int) -> SizeRange:
    """All ranges hold, where there are several."""
    if operator.lower() != "content-length-range":
        raise _invalid(f"Unknown operator: {operator[:64]}")
    if isinstance(least, bool) or isinstance(most, bool) or not 0 <= least <= most:
        raise _invalid("Invalid content-length-range.")
    return SizeRange(max(size.least_bytes, least), min(size.most_bytes, most))


def _free(name: str) -> bool:
    return name.startswith(_FREE_PREFIXES)


def _prove_version_4(
    fields: Fields, credentials: CredentialStore, now_s: float, region: str
) -> Principal:
    if _required(fields, "x-amz-algorithm") != ALGORITHM:
        raise _argument("x-amz-algorithm", f"X-Amz-Algorithm only supports {ALGORITHM}")
    access_key, scope = parse_credential(_required(fields, "x-amz-credential"), _credential_fault)
    check_scope(scope, region, SERVICE, S3Code.INVALID_ARGUMENT)
    date = _required(fields, "x-amz-date")
    time_s = parse_timestamp(date)
    if time_s is None or scope.date != date[:8]:
        raise _argument("x-amz-date", "X-Amz-Date must be the credential's day, yyyyMMddTHHmmssZ")
    if not -MAX_SKEW_S <= now_s - time_s <= MAX_EXPIRES_S:
        raise _denied("x-amz-date is in the future, or a signing key older than seven days.")
    signature = checked_signature(_required(fields, "x-amz-signature"), _signature_fault)
    policy = _required(fields, "policy")
    key = credentials.signing_key(access_key, scope)
    if key is None:
        raise _unknown(access_key)
    return _proved(credentials, access_key, sign(key, policy), signature)


def _prove_version_2(
    fields: Fields, credentials: CredentialStore, _now_s: float, _region: str
) -> Principal:
    """HMAC-SHA1 of the policy, which S3 still takes of forms."""
    access_key, policy = _required(fields, "awsaccesskeyid"), _required(fields, "policy")
    signature = _required(fields, "signature")
    secret_key = credentials.lookup(access_key)
    if secret_key is None:
        raise _unknown(access_key)
    digest = hmac.digest(secret_key.encode(), policy.encode(), hashlib.sha1)
    return _proved(credentials, access_key, base64.b64encode(digest).decode("ascii"), signature)


def _proved(
    credentials: CredentialStore, access_key: str, expected: str, signature: str
) -> Principal:
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass")):
        raise ClientError(S3Code.SIGNATURE_DOES_NOT_MATCH, details={"AWSAccessKeyId": access_key})
    return credentials.principal(access_key)


def _required(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not value:
        raise _argument(
            name,
            f"Bucket POST must contain a field named '{name}'.  If it is specified, please check "
            "the order of the fields.",
        )
    return value


def _argument(name: str, message: str) -> ClientError:
    return ClientError(S3Code.INVALID_ARGUMENT, message, details={"ArgumentName": name})


def _credential_fault(reason: str) -> ClientError:
    return _argument("x-amz-credential", reason)


def _signature_fault(reason: str) -> ClientError:
    return _argument("x-amz-signature", reason)


def _unknown(access_key: str) -> ClientError:
    return ClientError(S3Code.INVALID_ACCESS_KEY_ID, details={"AWSAccessKeyId": access_key})


def _invalid(reason: str) -> ClientError:
    return ClientError(S3Code.INVALID_POLICY_DOCUMENT, f"Invalid Policy: {reason}")


def _denied(reason: str) -> ClientError:
    return ClientError(S3Code.ACCESS_DENIED, f"Invalid according to Policy: {reason}")
