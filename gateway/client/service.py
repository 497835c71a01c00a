"""The small S3 requests around a transfer: heads, listings, buckets."""

from __future__ import annotations

from gateway.client import replies
from gateway.client.address import address
from gateway.client.connection import Call, Connection, Reply
from gateway.client.models import Bucket, Listing, ObjectHead
from gateway.client.retry import while_busy
from gateway.client.signing import DEFAULT_REGION
from gateway.config.client import ClientLimits
from gateway.wire.xml import document, element, render


class Service:
    """One endpoint's requests; each is repeated while the server is busy."""

    def __init__(self, connection: Connection, limits: ClientLimits) -> None:
        self._connection = connection
        self._limits = limits

    async def _ask(self, call: Call) -> Reply:
        return await while_busy(lambda: self._connection.fetch(call), self._limits)

    async def head(self, bucket: str, key: str, version_id: str | None) -> ObjectHead:
        query = {"versionId": version_id} if version_id else None
        call = Call("HEAD", address(bucket, key, query), {"x-amz-checksum-mode": "ENABLED"})
        return replies.object_head((await self._ask(call)).headers)

    async def list_objects(
        self, bucket: str, prefix: str, delimiter: str, token: str | None
    ) -> Listing:
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
        query |= {"delimiter": delimiter} if delimiter else {}
        query |= {"continuation-token": token} if token else {}
        return replies.listing((await self._ask(Call("GET", address(bucket, query=query)))).body)

    async def list_buckets(self) -> tuple[Bucket, ...]:
        return replies.buckets((await self._ask(Call("GET", address()))).body)

    async def create_bucket(self, bucket: str, region: str) -> None:
        """S3 wants the region in the body, unless it is its first one."""
        constraint = element("LocationConstraint", text=region)
        body = (
            b""
            if region == DEFAULT_REGION
            else render(document("CreateBucketConfiguration", constraint))
        )
        await self._ask(Call("PUT", address(bucket), body=body))

    async def delete_object(self, bucket: str, key: str) -> None:
        await self._ask(Call("DELETE", address(bucket, key)))

    async def copy_object(self, source: tuple[str, str], target: tuple[str, str]) -> None:
        """CopyObject, within the server; both are (bucket, key)."""
        headers = {"x-amz-copy-source": address(*source)}
        reply = await self._ask(Call("PUT", address(*target), headers))
        replies.check_copied(reply.body)
