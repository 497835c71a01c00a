"""The client's small requests: everything that moves no object's bytes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from gateway.client.copying import Copy
from gateway.client.models import (
    Bucket,
    DeleteFailure,
    Deletion,
    Listing,
    ObjectHead,
    VersionListing,
)
from gateway.client.service import Service
from gateway.config.client import ClientLimits


class Requests:
    """What a client asks; it raises the errors of ``gateway.client.errors``."""

    _service: Service
    _limits: ClientLimits
    _region: str

    async def head(self, bucket: str, key: str, version_id: str | None = None) -> ObjectHead:
        """What there is to know of an object without its bytes."""
        return await self._service.head(bucket, key, version_id)

    async def list_objects(
        self, bucket: str, prefix: str = "", *, delimiter: str = "", token: str | None = None
    ) -> Listing:
        """One page of a bucket, at most 1000 keys; `token` is the page before's `next_token`."""
        return await self._service.list_objects(bucket, prefix, delimiter, token)

    async def list_versions(
        self,
        bucket: str,
        prefix: str = "",
        *,
        delimiter: str = "",
        marker: tuple[str, str] | None = None,
    ) -> VersionListing:
        """One page of all versions; `marker` is the page before's `next_marker`."""
        return await self._service.list_versions(bucket, prefix, delimiter, marker)

    async def list_buckets(self) -> tuple[Bucket, ...]:
        """The buckets of these credentials."""
        return await self._service.list_buckets()

    async def create_bucket(self, bucket: str) -> None:
        """Make a bucket in the client's region."""
        await self._service.create_bucket(bucket, self._region)

    async def delete_bucket(self, bucket: str) -> None:
        """Remove a bucket, which must be empty."""
        await self._service.delete_bucket(bucket)

    async def delete_object(self, bucket: str, key: str, version_id: str | None = None) -> None:
        """Remove an object, or one version of it; what does not exist is no error, as S3 has it."""
        await self._service.delete_object(bucket, key, version_id)

    async def delete_objects(
        self, bucket: str, deletions: Sequence[Deletion]
    ) -> tuple[DeleteFailure, ...]:
        """Remove any number of objects, a thousand with each request; those that failed."""
        return await self._service.delete_objects(bucket, deletions)

    async def copy_object(
        self, source: tuple[str, str], target: tuple[str, str], *, version_id: str | None = None
    ) -> str:
        """Copy an object of any size within the server; both are (bucket, key).

        One of more than `copy_bytes` is copied in parts; it keeps its type and metadata, and loses
        what else was set on it, such as tags.

        Returns:
            The copy's ETag.
        """
        head = await self.head(*source, version_id)
        copy = Copy(source, target, version_id, head)
        return await copy.run(self._service.ask, self._limits)

    async def token_reply(self, bucket: str, key: str, token: str) -> str:
        """What the server says to an RDMA token on a GET of an object; "" where it says nothing.

        "501" declines it: the object came in the body. PROTOCOL.md, section 4.
        """
        return await self._service.token_reply(bucket, key, token)

    async def server_time(self) -> datetime:
        """The server's clock, in whole seconds; these credentials must be good."""
        return await self._service.server_time()
