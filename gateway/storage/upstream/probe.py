"""What the service can, asked at start in a scratch bucket.

The bucket is the operator's (`upstream.probe_bucket`), or one that is made and removed again. Where
the gateway may not make one, the service is taken for one that judges no conditions and keeps no
checksums: refusing what it could do is a nuisance, promising what it can't loses data.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.errors import GatewayError
from gateway.storage.upstream.abilities import DOCUMENTS, Abilities
from gateway.storage.upstream.documents import knows
from gateway.storage.upstream.service import CallError, Reply, Service
from gateway.storage.upstream.values import location

_log = logging.getLogger(__name__)

_CRC32_OF_NOTHING = "AAAAAA=="
_NO_SUCH_ETAG = '"00000000000000000000000000000000"'
_CANT = (400, 405, 500, 501)
"""Statuses that mean "not here" of a well-formed question; 404 is an answer."""


async def probe(service: Service) -> Abilities | None:
    """Find out. What can't be asked is taken for missing, and logged.

    Returns:
        None where the service does not answer: ask again.
    """
    bucket, made = service.config.probe_bucket, False
    if not bucket:
        bucket, made = f"s3rdma-probe-{secrets.token_hex(8)}", True
        try:
            where = location(service.config.region)
            await service.call("create_bucket", repeatable=False, Bucket=bucket, **where)
        except GatewayError as error:
            _log.warning(
                "no scratch bucket to learn what the storage service can (%s); name one by "
                "upstream.probe_bucket",
                error,
            )
            return None if error.code.status >= 500 else Abilities()
    try:
        return await _Probe(service, bucket).run()
    finally:
        if made:
            await _tidy(service.call("delete_bucket", Bucket=bucket))


@dataclass(frozen=True, slots=True)
class _Probe:
    """Questions to one bucket, about one key that nobody else uses."""

    service: Service
    bucket: str
    key: str = field(default_factory=lambda: f"s3rdma-probe/{secrets.token_hex(8)}")

    async def run(self) -> Abilities:
        known = Abilities(
            versioning=await self._can("get_bucket_versioning"),
            acl=await self._can("get_bucket_acl"),
            documents=frozenset(
                [name for name in DOCUMENTS if await knows(self.service, self.bucket, name)]
            ),
        )
        try:
            await self._call("put_object", ChecksumCRC32=_CRC32_OF_NOTHING)
            known = replace(
                known,
                conditional_writes=await self._judges_writes(),
                checksums=await self._keeps_checksums(),
                object_tagging=await self._can("get_object_tagging", Key=self.key),
            )
            known = await self._uploads(known)
            return replace(known, conditional_deletes=await self._judges_deletes())
        except GatewayError as error:
            _log.warning("can't write to %s to learn what the service can: %s", self.bucket, error)
            return known
        finally:
            await _tidy(self._call("delete_object"))

    async def _call(self, operation: str, **given: Any) -> Reply:
        return await self.service.call(operation, Bucket=self.bucket, Key=self.key, **given)

    async def _can(self, operation: str, **given: Any) -> bool:
        try:
            await self.service.attempt(operation, Bucket=self.bucket, **given)
        except CallError as failed:
            return failed.answer is not None and failed.answer.status not in _CANT
        return True

    async def _judges_writes(self) -> bool:
        """Both ways: a service may know one of the headers only."""
        return await self._refuses("put_object", IfNoneMatch="*") and await self._refuses(
            "put_object", IfMatch=_NO_SUCH_ETAG
        )

    async def _uploads(self, known: Abilities) -> Abilities:
        """If-None-Match at an upload's end, while the object is there; and tags at its start."""
        upload = await self._call("create_multipart_upload", Tagging="probe=yes")
        named = {"UploadId": upload["UploadId"]}
        part = await self._call("upload_part", PartNumber=1, Body=b"-", **named)
        named["MultipartUpload"] = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        judges = await self._refuses("complete_multipart_upload", IfNoneMatch="*", **named)
        if judges:
            await self._call("complete_multipart_upload", **named)
        tagging = known.object_tagging and bool(
            (await self._call("get_object_tagging")).get("TagSet")
        )
        return replace(known, conditional_completes=judges, upload_tagging=tagging)

    async def _judges_deletes(self) -> bool:
        return await self._refuses("delete_object", IfMatch=_NO_SUCH_ETAG)

    async def _refuses(self, operation: str, **conditions: Any) -> bool:
        """Whether a condition that does not hold keeps the service from doing it."""
        try:
            await self.service.attempt(operation, Bucket=self.bucket, Key=self.key, **conditions)
        except CallError as failed:
            return failed.answer is not None and failed.answer.status == 412
        return False

    async def _keeps_checksums(self) -> bool:
        # Once more: a write whose condition did not hold may have come through.
        await self._call("put_object", ChecksumCRC32=_CRC32_OF_NOTHING)
        reply = await self._call("head_object", ChecksumMode="ENABLED")
        return reply.get("ChecksumCRC32") == _CRC32_OF_NOTHING


async def _tidy(call: Awaitable[Reply]) -> None:
    try:
        await call
    except GatewayError as error:
        _log.warning("left behind at the storage service: %s", error)
