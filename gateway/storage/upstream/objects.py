"""Objects upstream: looked up, changed and deleted.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html
https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObject.html
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from gateway.errors import ClientError, GatewayError, S3Code
from gateway.storage import rules
from gateway.storage.port import (
    Deletion,
    ObjectAttributes,
    ObjectInfo,
    Permit,
    Retention,
    RetentionMode,
    Versioning,
)
from gateway.storage.upstream.abilities import Abilities
from gateway.storage.upstream.buckets import Buckets
from gateway.storage.upstream.faults import Answer, refused
from gateway.storage.upstream.service import CallError, Reply, Service
from gateway.storage.upstream.values import (
    Parameters,
    delete_conditions,
    moment,
    read_info,
    read_tags,
    tag_set,
    versioned,
)
from gateway.wire.conditional import Conditions
from gateway.wire.grants import Grants

_MARKER = "x-amz-delete-marker"
_VERSION = "x-amz-version-id"
_NOT_THERE = frozenset({S3Code.NO_SUCH_KEY, S3Code.NO_SUCH_VERSION})


class Objects:
    """The service's objects, as the port has them."""

    def __init__(self, service: Service, abilities: Abilities, buckets: Buckets) -> None:
        self._service = service
        self._abilities = abilities
        self._buckets = buckets

    async def head(
        self, bucket: str, key: str, version_id: str | None, *, grants: bool
    ) -> ObjectInfo:
        """A version, or the latest.

        Args:
            bucket: its own.
            key: of the object.
            version_id: None for the latest.
            grants: also its access control list, which costs a request of its own.

        Raises:
            ClientError: as the port's `head_object`.
        """
        if grants and self._abilities.acl:
            reply, acl = await asyncio.gather(
                self._head(bucket, key, version_id), self._acl(bucket, key, version_id)
            )
        else:
            reply, acl = await self._head(bucket, key, version_id), None
        info = read_info(bucket, key, reply, latest=version_id is None)
        if not self._service.own_key:
            info = replace(info, owner=(await self._buckets.get(bucket)).owner)
        attributes = info.attributes
        if _may_have_tags(reply) and self._abilities.object_tagging:
            attributes = replace(attributes, tags=await self._tags(bucket, key, version_id))
        if acl is not None:
            attributes = replace(attributes, grants=await self._grants(info.owner, acl))
        return replace(info, attributes=attributes)

    async def update(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        change: Callable[[ObjectInfo], ObjectAttributes],
    ) -> ObjectInfo:
        """Change what differs, each by its own request; the rest of an object never changes."""
        info = await self.head(bucket, key, version_id, grants=True)
        before, after = info.attributes, change(info)
        unchangeable = replace(
            after,
            tags=before.tags,
            grants=before.grants,
            retention=before.retention,
            legal_hold=before.legal_hold,
        )
        if unchangeable != before:
            raise refused("change the headers and metadata of an object that is there")
        target: Parameters = {"Bucket": bucket, **versioned(key, version_id)}
        if after.tags != before.tags:
            await self._put_tags(target, after)
        if after.grants != before.grants:
            await self._put_grants(target, info.owner, after.grants)
        if after.retention != before.retention:
            await self._put_retention(target, before.retention, after.retention)
        if after.legal_hold != before.legal_hold:
            status = "ON" if after.legal_hold else "OFF"
            await self._service.call(
                "put_object_legal_hold", **target, LegalHold={"Status": status}
            )
        return replace(info, attributes=after)

    async def delete(
        self,
        bucket: str,
        key: str,
        version_id: str | None,
        conditions: Conditions,
        permit: Permit,
    ) -> Deletion:
        """As the port's `delete_object`; whether something was there, S3 does not tell."""
        given = delete_conditions(conditions)
        if given and not self._abilities.conditional_deletes:
            raise refused("judge the conditions of a delete")
        info = await self._buckets.get(bucket)
        if version_id is not None and info.object_lock:
            try:
                given |= await self._permitted(bucket, key, version_id, permit)
            except ClientError as error:
                if error.code not in _NOT_THERE:
                    raise
                return Deletion(existed=False)
        try:
            reply = await self._service.call(
                "delete_object", Bucket=bucket, **versioned(key, version_id), **given
            )
        except GatewayError as error:
            if error.code not in _NOT_THERE:
                raise
            return Deletion(existed=False)
        named = None if info.versioning is Versioning.OFF else reply.get("VersionId", version_id)
        return Deletion(True, named, bool(reply.get("DeleteMarker", False)))

    async def _permitted(
        self, bucket: str, key: str, version_id: str, permit: Permit
    ) -> Parameters:
        """What a permitted removal needs besides. Raises what `permit` raises."""
        try:
            info = await self.head(bucket, key, version_id, grants=False)
        except ClientError as error:
            if error.code is S3Code.METHOD_NOT_ALLOWED:  # a delete marker, which nothing locks
                return {}
            raise
        permit(info)
        retention = info.attributes.retention
        governed = retention is not None and retention.mode is RetentionMode.GOVERNANCE
        return {"BypassGovernanceRetention": True} if governed else {}

    async def _head(self, bucket: str, key: str, version_id: str | None) -> Reply:
        mode: Parameters = {"ChecksumMode": "ENABLED"} if self._abilities.checksums else {}
        try:
            return await self._service.attempt(
                "head_object", Bucket=bucket, **versioned(key, version_id), **mode
            )
        except CallError as failed:
            if failed.answer is None or failed.answer.status not in (400, 404, 405):
                raise failed.error from failed
            raise await self._absence(failed, failed.answer, bucket, key, version_id) from failed

    async def _absence(
        self, failed: CallError, answer: Answer, bucket: str, key: str, version_id: str | None
    ) -> GatewayError:
        """Why there is nothing: HEAD has no body that would say it."""
        marker = {name: answer.headers.get(name, "") for name in (_MARKER, _VERSION)}
        hidden = marker[_MARKER] == "true"
        if hidden and version_id is not None:
            details = {"ResourceType": "DeleteMarker"}
            return ClientError(
                S3Code.METHOD_NOT_ALLOWED, details=details, headers=marker | {"Allow": "DELETE"}
            )
        if hidden:
            return ClientError(S3Code.NO_SUCH_KEY, details={"Key": key}, headers=marker)
        if answer.status == 405 or (answer.status == 400 and version_id is None):
            return failed.error
        try:
            await self._buckets.require(bucket)
        except GatewayError as error:
            return error
        if version_id is not None:
            return rules.no_such_version(key, version_id)
        return rules.no_such_key(key)

    async def _tags(
        self, bucket: str, key: str, version_id: str | None
    ) -> tuple[tuple[str, str], ...]:
        return read_tags(
            await self._service.call(
                "get_object_tagging", Bucket=bucket, **versioned(key, version_id)
            )
        )

    async def _acl(self, bucket: str, key: str, version_id: str | None) -> Reply | None:
        """None where it can't be told: then `_head` says why."""
        try:
            return await self._service.call(
                "get_object_acl", Bucket=bucket, **versioned(key, version_id)
            )
        except GatewayError as error:
            if error.code.status >= 500:
                raise
            return None

    async def _grants(self, owner: str, acl: Reply) -> Grants:
        named = await self._buckets.owner(owner)
        upstream = str(acl.get("Owner", {}).get("ID", named.upstream))
        return replace(named, upstream=upstream).read(acl)

    async def _put_tags(self, target: Parameters, after: ObjectAttributes) -> None:
        if not self._abilities.object_tagging:
            raise refused("keep tags of objects")
        if after.tags:
            await self._service.call("put_object_tagging", **target, Tagging=tag_set(after.tags))
        else:
            await self._service.call("delete_object_tagging", **target)

    async def _put_grants(self, target: Parameters, owner: str, grants: Grants) -> None:
        if not self._abilities.acl:
            raise refused("keep access control lists")
        named = await self._buckets.owner(owner)
        await self._service.call(
            "put_object_acl", **target, AccessControlPolicy=named.document(grants)
        )

    async def _put_retention(
        self, target: Parameters, before: Retention | None, after: Retention | None
    ) -> None:
        governed = before is not None and before.mode is RetentionMode.GOVERNANCE
        bypass: Parameters = {"BypassGovernanceRetention": True} if governed else {}
        wanted: Parameters = {}
        if after is not None:
            wanted = {"Mode": after.mode.value, "RetainUntilDate": moment(after.until_ns)}
        await self._service.call("put_object_retention", **target, **bypass, Retention=wanted)


def _may_have_tags(reply: Reply) -> bool:
    """HEAD counts them; a service that doesn't may have some all the same."""
    return bool(reply.get("TagCount", 1))
