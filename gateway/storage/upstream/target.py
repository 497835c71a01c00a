"""One object, or one part, to be written: the requests that do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway.storage.port import Destination
from gateway.storage.upstream.outgoing import OutgoingBody
from gateway.storage.upstream.service import Reply, Service
from gateway.storage.upstream.values import Parameters, object_headers, object_parameters

Grants = Callable[[Destination], Awaitable[Parameters]]
"""An access control list as parameters."""


class Target(Protocol):
    """What one request with a body makes."""

    async def put(self, body: OutgoingBody, given: Parameters) -> Reply:
        """Send all of the body. Raises GatewayError.

        Args:
            body: as long as it says.
            given: what the service shall hold the body to, and conditions.
        """


class ObjectTarget:
    """An object, written whole or in parts."""

    def __init__(
        self, service: Service, bucket: str, destination: Destination, grants: Grants
    ) -> None:
        self._service = service
        self._address: Parameters = {"Bucket": bucket, "Key": destination.key}
        self._destination = destination
        self._grants = grants

    async def put(self, body: OutgoingBody, given: Parameters) -> Reply:
        conditional = not given.keys().isdisjoint({"IfMatch", "IfNoneMatch"})
        return await self._service.call(
            "put_object",
            repeatable=not conditional,  # else its own success would be held against it
            raw=object_headers(self._destination.attributes, self._destination.owner),
            body=body,
            **self._address,
            **await self._said(),
            **given,
        )

    async def create(self) -> Part:
        """Begin a multipart upload of it."""
        reply = await self._service.call(
            "create_multipart_upload",
            repeatable=False,
            raw=object_headers(self._destination.attributes, self._destination.owner),
            **self._address,
            **await self._said(),
        )
        return Part(self._service, {**self._address, "UploadId": reply["UploadId"]})

    async def _said(self) -> Parameters:
        """What the client says of it."""
        given = object_parameters(self._destination.attributes)
        return given | await self._grants(self._destination)


class Part:
    """A multipart upload, or with its PartNumber one part of it."""

    def __init__(self, service: Service, address: Parameters) -> None:
        self._service = service
        self._address = address

    def numbered(self, number: int) -> Part:
        """One of its parts."""
        return Part(self._service, {**self._address, "PartNumber": number})

    async def put(self, body: OutgoingBody, given: Parameters) -> Reply:
        return await self._service.call("upload_part", body=body, **self._address, **given)

    async def complete(self, parts: list[Parameters], conditions: Parameters) -> Reply:
        """Make the object of these parts."""
        return await self._service.call(
            "complete_multipart_upload",
            repeatable=False,
            **self._address,
            **conditions,
            MultipartUpload={"Parts": parts},
        )

    async def abort(self) -> None:
        """Drop it."""
        await self._service.call("abort_multipart_upload", **self._address)
