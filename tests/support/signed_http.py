"""Many signed requests at once: aiohttp as the client, botocore as the signer."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import aiohttp
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from gateway_process import GatewayProcess


def session(connections: int) -> aiohttp.ClientSession:
    """A session that opens so many connections at once."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections))


def signed(
    client: aiohttp.ClientSession,
    process: GatewayProcess,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Any:
    """aiohttp's request context, signed with its headers for the process's key."""
    url = f"{process.endpoint}{path}"
    request = AWSRequest(method, url, dict(headers or {}), data=body)
    credentials = Credentials(process.access_key, process.secret_key)
    S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
    data = io.BytesIO(body)  # as aiohttp wants long bodies
    return client.request(method, url, data=data, headers=dict(request.headers.items()))
