"""Signed HTTP requests to one endpoint: the only door of this package to the network.

aiohttp is given the encoded URL as it was signed, and is kept from adding anything of its own to it
(no redirects, no decompression: an object's ``Content-Encoding`` is the object's).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDictProxy
from yarl import URL

from gateway.client.errors import ConnectError, S3Error
from gateway.client.replies import s3_error
from gateway.client.signing import Signer
from gateway.client.trust import Verify, trust
from gateway.config.client import ClientLimits


@dataclass(frozen=True, slots=True)
class Call:
    """One request, before it is signed.

    Attributes:
        address: percent-encoded path and query.
        headers: all of them will be signed.
        body: bytes are hashed into the signature; a memoryview is streamed, unsigned, and must
            stay as it is until the reply.
    """

    method: str
    address: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | memoryview = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """A successful answer, read whole. Header names are case-insensitive."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Connection:
    """A pool of connections to one endpoint. `close` when done; of one event loop."""

    def __init__(
        self, endpoint: str, signer: Signer, limits: ClientLimits, verify: Verify = None
    ) -> None:
        self.endpoint = endpoint
        self._signer = signer
        self._limits = limits
        self._session = aiohttp.ClientSession(
            # READY's reply is pending while other requests go on: each has a connection of its own.
            connector=aiohttp.TCPConnector(
                limit=4 * limits.concurrency + limits.many_concurrency, ssl=trust(verify)
            ),
            auto_decompress=False,
            skip_auto_headers=(hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE, hdrs.USER_AGENT),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=limits.connect_timeout_s,
                sock_read=limits.stall_timeout_s,
            ),
        )

    async def close(self) -> None:
        await self._session.close()

    async def fetch(self, call: Call, timeout_s: float | None = None) -> Reply:
        """Send a request and read its small reply.

        Args:
            call: the request.
            timeout_s: for all of it; None means `request_timeout_s`, or no more than the stall
                timeout where a body is streamed.

        Raises:
            S3Error: the reply is not 2xx.
            ConnectError: no reply, an endless one, or none in time.
        """
        if timeout_s is None and isinstance(call.body, bytes):
            timeout_s = self._limits.request_timeout_s
        async with self.stream(call, timeout_s) as response:
            body = await self._read(response)
            return Reply(response.status, response.headers, body)

    @asynccontextmanager
    async def stream(
        self, call: Call, timeout_s: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and lend the reply, 2xx, with its body still to be read."""
        url = self.endpoint + call.address
        payload = call.body if isinstance(call.body, bytes) else None
        headers = await self._signer.sign(call.method, url, call.headers, payload)
        if call.method in {hdrs.METH_PUT, hdrs.METH_POST}:
            headers[hdrs.CONTENT_LENGTH] = str(len(call.body))
        try:
            async with self._session.request(
                call.method,
                URL(url, encoded=True),
                headers=headers,
                data=self._chunks(call.body) if call.body else None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    total=timeout_s,
                    sock_connect=self._limits.connect_timeout_s,
                    sock_read=self._limits.stall_timeout_s,
                ),
            ) as response:
                if not 200 <= response.status < 300:
                    raise await self._error(response)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectError(f"{self.endpoint}: {_reason(error)}") from error

    async def _error(self, response: aiohttp.ClientResponse) -> S3Error:
        return s3_error(response.status, response.headers, await self._read(response))

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self._limits.max_reply_bytes:
                raise ConnectError(
                    f"{self.endpoint}: a reply of more than {self._limits.max_reply_bytes} bytes"
                )
        return bytes(body)

    async def _chunks(self, body: bytes | memoryview) -> AsyncIterator[bytes | memoryview]:
        step = self._limits.http_chunk_bytes
        for start in range(0, len(body), step):
            yield body[start : start + step]


def _reason(error: Exception) -> str:
    """In a line, what an aiohttp or socket error means."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
