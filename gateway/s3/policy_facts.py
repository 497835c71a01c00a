"""What a request says by the names of a policy's condition keys.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/amazon-s3-policy-keys.html
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from gateway.auth.condition_keys import EXISTING_TAG, REQUEST_TAG
from gateway.auth.conditions import Facts
from gateway.s3.operations import CopySource, Operation
from gateway.s3.requester import Requester
from gateway.storage.port import ObjectAttributes, ObjectInfo

_NS_PER_S = 1_000_000_000
_PARAMETERS = {"prefix": "s3:prefix", "delimiter": "s3:delimiter", "version_id": "s3:versionid"}


def policy_facts(operation: Operation, requester: Requester, found: ObjectInfo | None) -> Facts:
    """Every condition key that the request has.

    Args:
        operation: its fields are keys where S3 has one for them.
        requester: who asks, and from where.
        found: the object as it is, where it is there and a policy wants to know its tags.
    """
    facts: dict[str, tuple[str, ...]] = {
        name: (value,)
        for name, value in (*_of_requester(requester), *_of_operation(operation))
        if value is not None
    }
    attributes = getattr(operation, "attributes", None)
    if isinstance(attributes, ObjectAttributes):
        facts.update(_of_attributes(attributes))
    if found is not None:
        for key, value in found.attributes.tags:
            facts[EXISTING_TAG + key.lower()] = (value,)
    return facts


def _of_requester(requester: Requester) -> Iterator[tuple[str, str | None]]:
    moment = datetime.fromtimestamp(requester.now_s, UTC)
    yield "aws:currenttime", moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    yield "aws:epochtime", str(int(requester.now_s))
    yield "aws:securetransport", str(requester.secure).lower()
    yield "aws:sourceip", requester.remote_ip or None
    yield "aws:useragent", requester.user_agent
    yield "aws:referer", requester.referer
    account = requester.principal.account
    if account is not None:
        yield "aws:principalarn", account.arn
        yield "aws:userid", account.user_id
    if requester.auth_type:
        yield "s3:authtype", requester.auth_type
        yield "s3:signatureversion", requester.signature_version
    for name, value in requester.stated.items():
        yield f"s3:{name}", value


def _of_operation(operation: Operation) -> Iterator[tuple[str, str | None]]:
    for name, key in _PARAMETERS.items():
        yield key, getattr(operation, name, None)
    max_keys: int | None = getattr(operation, "max_keys", None)
    yield "s3:max-keys", None if max_keys is None else str(max_keys)
    source = getattr(operation, "source", None)
    if isinstance(source, CopySource):  # as it is read: the header has many spellings of one key
        yield "s3:x-amz-copy-source", f"{source.bucket}/{source.key}"


def _of_attributes(attributes: ObjectAttributes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Of what is to be written."""
    for key, value in attributes.tags:
        yield REQUEST_TAG + key.lower(), (value,)
    if attributes.tags:
        yield "s3:requestobjecttagkeys", tuple(key for key, _ in attributes.tags)
    if attributes.legal_hold:
        yield "s3:object-lock-legal-hold", ("ON",)
    if attributes.retention is not None:
        until = datetime.fromtimestamp(attributes.retention.until_ns // _NS_PER_S, UTC)
        yield "s3:object-lock-mode", (attributes.retention.mode.value,)
        yield "s3:object-lock-retain-until-date", (until.strftime("%Y-%m-%dT%H:%M:%SZ"),)
