"""Multipart uploads of clients, as the service's own: their ids, parts and ends pass through.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gateway.errors import ClientError, S3Code
from gateway.storage import rules
from gateway.storage.port import (
    ObjectAttributes,
    ObjectDraft,
    ObjectInfo,
    PartInfo,
    UploadInfo,
)
from gateway.storage.upstream.abilities import Abilities
from gateway.storage.upstream.buckets import Buckets
from gateway.storage.upstream.faults import refused
from gateway.storage.upstream.objects import Objects
from gateway.storage.upstream.service import Reply, Service
from gateway.storage.upstream.values import (
    Parameters,
    checksum_parameters,
    condition_parameters,
    object_headers,
    object_parameters,
    quoted,
    read_part,
    written_info,
)
from gateway.wire.checksums import Algorithm, ChecksumType
from gateway.wire.conditional import Conditions


class Uploads:
    """The service's uploads, as the port has them."""

    def __init__(
        self,
        service: Service,
        abilities: Abilities,
        buckets: Buckets,
        objects: Objects,
    ) -> None:
        self._service = service
        self._abilities = abilities
        self._buckets = buckets
        self._objects = objects

    async def create(self, wanted: UploadInfo) -> UploadInfo:
        """An upload with these attributes; the id is the service's."""
        given: Parameters = {}
        if wanted.checksum_algorithm is not None and self._abilities.checksums:
            given["ChecksumAlgorithm"] = wanted.checksum_algorithm.label
            if wanted.checksum_type is not None:
                given["ChecksumType"] = wanted.checksum_type.value
        if wanted.attributes.tags and not self._abilities.upload_tagging:
            raise refused("keep the tags of a multipart upload; tag the object when it is there")
        if wanted.attributes.grants and self._abilities.acl:
            owner = await self._buckets.owner(wanted.owner)
            given |= owner.headers(wanted.attributes.grants)
        reply = await self._service.call(
            "create_multipart_upload",
            repeatable=False,
            raw=object_headers(wanted.attributes, wanted.owner),
            Bucket=wanted.bucket,
            Key=wanted.key,
            **object_parameters(wanted.attributes),
            **given,
        )
        return UploadInfo(
            bucket=wanted.bucket,
            key=wanted.key,
            upload_id=reply["UploadId"],
            initiated_ns=wanted.initiated_ns,
            attributes=wanted.attributes,
            checksum_algorithm=wanted.checksum_algorithm,
            checksum_type=wanted.checksum_type,
            owner=wanted.owner,
        )

    async def head(self, bucket: str, key: str, upload_id: str) -> UploadInfo:
        """What ListParts tells of an upload: its attributes are the service's alone."""
        reply = await self._list(bucket, key, upload_id, 0, 1)
        algorithm, kind = reply.get("ChecksumAlgorithm"), reply.get("ChecksumType")
        return UploadInfo(
            bucket=bucket,
            key=key,
            upload_id=upload_id,
            initiated_ns=0,
            attributes=ObjectAttributes(storage_class=reply.get("StorageClass") or "STANDARD"),
            checksum_algorithm=Algorithm[algorithm] if algorithm else None,
            checksum_type=ChecksumType(kind) if kind else None,
        )

    async def parts(
        self, bucket: str, key: str, upload_id: str, after_number: int, limit: int
    ) -> tuple[tuple[PartInfo, ...], bool]:
        """A page of them; one of no parts is asked for all the same, for its errors."""
        reply = await self._list(bucket, key, upload_id, after_number, max(limit, 1))
        if not limit:
            return (), False
        return tuple(map(read_part, reply.get("Parts", ()))), bool(reply.get("IsTruncated"))

    async def complete(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[PartInfo],
        draft: ObjectDraft,
        conditions: Conditions,
    ) -> ObjectInfo:
        """The service judges parts and conditions. NotImplemented for those that it ignores."""
        given = condition_parameters(conditions)
        if given and not self._abilities.conditional_completes:
            raise refused("judge If-Match and If-None-Match at the end of an upload")
        reply = await self._service.call(
            "complete_multipart_upload",
            repeatable=False,
            Bucket=bucket,
            Key=key,
            UploadId=upload_id,
            MultipartUpload={"Parts": [self._listed(part) for part in parts]},
            **given,
        )
        info = written_info(bucket, key, draft, reply)
        return info if info.etag else replace(info, etag=draft.etag)  # Ceph RGW 16.2 tells none

    async def completed(self, bucket: str, key: str) -> ObjectInfo | None:
        """The object that is there, which an upload may have become: its ETag tells which."""
        try:
            info = await self._objects.head(bucket, key, None, grants=False)
        except ClientError:
            return None
        return info if "-" in info.etag else None

    async def abort(self, bucket: str, key: str, upload_id: str) -> None:
        """Raises NoSuchUpload."""
        await self._service.call(
            "abort_multipart_upload",
            repeatable=False,
            Bucket=bucket,
            Key=key,
            UploadId=upload_id or "-",
        )

    def _listed(self, part: PartInfo) -> dict[str, Any]:
        given: dict[str, Any] = {"PartNumber": part.number, "ETag": quoted(part.etag)}
        if self._abilities.checksums:
            given |= checksum_parameters(part.checksums)
        return given

    async def _list(
        self, bucket: str, key: str, upload_id: str, after_number: int, limit: int
    ) -> Reply:
        try:
            return await self._service.call(
                "list_parts",
                Bucket=bucket,
                Key=key,
                UploadId=upload_id or "-",
                PartNumberMarker=after_number,
                MaxParts=limit,
            )
        except ClientError as error:
            if error.code is S3Code.NO_SUCH_KEY:  # Ceph RGW 16.2's word for it
                raise rules.no_such_upload(upload_id) from error
            raise
