"""The ways from a program's buffer to a gateway and back: our client's three, and boto3."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    closing,
    nullcontext,
)
from dataclasses import dataclass, replace
from typing import Any, Protocol

from boto3_client import boto3_client
from botocore.credentials import Credentials
from gateway_process import GatewayProcess

from gateway.client import Client, RdmaMode, RdmaProtocol

BUCKET = "bench"


class Way(Protocol):
    """Objects of one bucket, there and back."""

    def hold(self, buffer: bytearray) -> AbstractAsyncContextManager[object]:
        """While this lasts the buffer is used again and again, and may stay registered."""

    def shared(self) -> Way:
        """The same for several transfers at once."""

    async def put(self, key: str, data: bytearray) -> None: ...

    async def get(self, key: str, into: bytearray) -> None:
        """All of the object, whose length the buffer has."""


@dataclass(frozen=True, slots=True)
class ClientWay:
    """By our client."""

    client: Client

    def hold(self, buffer: bytearray) -> AbstractAsyncContextManager[object]:
        return self.client.registered(buffer)

    def shared(self) -> Way:
        return self

    async def put(self, key: str, data: bytearray) -> None:
        await self.client.put_from(BUCKET, key, data)

    async def get(self, key: str, into: bytearray) -> None:
        await self.client.get_into(BUCKET, key, into, length=len(into))


@dataclass(frozen=True, slots=True)
class Boto3Way:
    """By boto3, as its users have it: what runs at once is in threads."""

    s3: Any
    in_threads: bool = False

    def hold(self, buffer: bytearray) -> AbstractAsyncContextManager[object]:
        return nullcontext(buffer)

    def shared(self) -> Way:
        return replace(self, in_threads=True)

    async def put(self, key: str, data: bytearray) -> None:
        await self._run(lambda: self.s3.put_object(Bucket=BUCKET, Key=key, Body=data))

    async def get(self, key: str, into: bytearray) -> None:
        def get() -> None:
            into[:] = self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()

        await self._run(get)

    async def _run(self, transfer: Callable[[], object]) -> None:
        if self.in_threads:
            await asyncio.to_thread(transfer)
        else:
            transfer()


Open = Callable[[GatewayProcess, str], AbstractAsyncContextManager[Way]]
"""Opens a way to a gateway; for RDMA, by the device of that name."""


def _by_client(mode: RdmaMode, protocol: RdmaProtocol | None = None) -> Open:
    @asynccontextmanager
    async def opened(gateway: GatewayProcess, device: str) -> AsyncIterator[Way]:
        client = Client(
            endpoint_url=gateway.endpoint,
            region_name="us-east-1",
            credentials=Credentials(gateway.access_key, gateway.secret_key),
            rdma=mode,
            device=device,
            protocol=protocol,
        )
        async with client:
            yield ClientWay(client)

    return opened


@asynccontextmanager
async def _by_boto3(gateway: GatewayProcess, _device: str) -> AsyncIterator[Way]:
    with closing(boto3_client(gateway)) as s3:
        yield Boto3Way(s3)


WAYS: dict[str, Open] = {
    "rc:": _by_client(RdmaMode.REQUIRE, RdmaProtocol.RC),
    "hipobj": _by_client(RdmaMode.REQUIRE, RdmaProtocol.HIPOBJ),
    "HTTP": _by_client(RdmaMode.NEVER),
    "boto3": _by_boto3,
}


@asynccontextmanager
async def all_ways(gateway: GatewayProcess, device: str) -> AsyncIterator[dict[str, Way]]:
    """Every way to one gateway, in which the bucket is there."""
    with closing(boto3_client(gateway)) as s3:
        s3.create_bucket(Bucket=BUCKET)
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(opened(gateway, device))
            for name, opened in WAYS.items()
        }
