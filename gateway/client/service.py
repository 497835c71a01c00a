"""The small S3 requests around a transfer: heads, listings, buckets."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime

from gateway.client import replies
from gateway.client.address import address
from gateway.client.connection import Call, Connection, Reply
from gateway.client.errors import ConnectError, S3Error
from gateway.client.models import (
    Bucket,
    DeleteFailure,
    Deletion,
    Listing,
    ObjectHead,
    VersionListing,
)
from gateway.client.retry import while_busy
from gateway.client.signing import DEFAULT_REGION
from gateway.config.client import ClientLimits
from gateway.wire import xml
from gateway.wire.rdma_headers import REPLY, TOKEN
from gateway.wire.xml import document, element, render

_DELETED_AT_ONCE = 1000
"""S3's own limit on a Delete document."""


class Service:
    """One endpoint's requests; each is repeated while the server is busy."""

    def __init__(self, connection: Connection, limits: ClientLimits) -> None:
        self._connection = connection
        self._limits = limits

    async def ask(self, call: Call) -> Reply:
        return await while_busy(lambda: self._connection.fetch(call), self._limits)

    async def head(self, bucket: str, key: str, version_id: str | None) -> ObjectHead:
        query = {"versionId": version_id} if version_id else None
        call = Call("HEAD", address(bucket, key, query), {"x-amz-checksum-mode": "ENABLED"})
        return replies.object_head((await self.ask(call)).headers)

    async def list_objects(
        self, bucket: str, prefix: str, delimiter: str, token: str | None
    ) -> Listing:
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
        query |= {"delimiter": delimiter} if delimiter else {}
        query |= {"continuation-token": token} if token else {}
        return replies.listing((await self.ask(Call("GET", address(bucket, query=query)))).body)

    async def list_buckets(self) -> tuple[Bucket, ...]:
        return replies.buckets((await self.ask(Call("GET", address()))).body)

    async def create_bucket(self, bucket: str, region: str) -> None:
        """S3 wants the region in the body, unless it is its first one."""
        constraint = element("LocationConstraint", text=region)
        body = (
            b""
            if region == DEFAULT_REGION
            else render(document("CreateBucketConfiguration", constraint))
        )
        await self.ask(Call("PUT", address(bucket), body=body))

    async def delete_bucket(self, bucket: str) -> None:
        await self.ask(Call("DELETE", address(bucket)))

    async def list_versions(
        self, bucket: str, prefix: str, delimiter: str, marker: tuple[str, str] | None
    ) -> VersionListing:
        query = {"versions": "", "encoding-type": "url", "prefix": prefix}
        query |= {"delimiter": delimiter} if delimiter else {}
        query |= {"key-marker": marker[0], "version-id-marker": marker[1]} if marker else {}
        return replies.versions((await self.ask(Call("GET", address(bucket, query=query)))).body)

    async def delete_object(self, bucket: str, key: str, version_id: str | None) -> None:
        query = {"versionId": version_id} if version_id else None
        await self.ask(Call("DELETE", address(bucket, key, query)))

    async def delete_objects(
        self, bucket: str, deletions: Sequence[Deletion]
    ) -> tuple[DeleteFailure, ...]:
        """By DeleteObjects, in as many requests as it takes; which one failed is in the answer.

        The document is XML 1.0, which can't hold every key: such are deleted one by one.
        """
        listed = [one for one in deletions if xml.holds(one.key)]
        failures: list[DeleteFailure] = []
        for start in range(0, len(listed), _DELETED_AT_ONCE):
            body = replies.delete_request(listed[start : start + _DELETED_AT_ONCE])
            # S3 wants a checksum of this document, and every server knows this one.
            digest = hashlib.md5(body, usedforsecurity=False).digest()
            headers = {"Content-MD5": base64.b64encode(digest).decode()}
            call = Call("POST", address(bucket, query={"delete": ""}), headers, body)
            failures += replies.delete_failures((await self.ask(call)).body)
        for one in deletions:
            if not xml.holds(one.key):
                try:
                    await self.delete_object(bucket, one.key, one.version_id)
                except S3Error as error:
                    failures.append(DeleteFailure(one, error.code, error.message))
        return tuple(failures)

    async def token_reply(self, bucket: str, key: str, token: str) -> str:
        headers = {TOKEN: token, "Range": "bytes=0-0"}
        return (await self.ask(Call("GET", address(bucket, key), headers))).headers.get(REPLY, "")

    async def server_time(self) -> datetime:
        """The server's clock, in whole seconds, as the ``Date`` of an answer has it."""
        headers = (await self.ask(Call("GET", address()))).headers
        try:
            return parsedate_to_datetime(headers.get("Date", ""))
        except ValueError as error:
            raise ConnectError("the server's answer has no Date") from error
