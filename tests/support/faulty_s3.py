"""A small S3 service of one bucket that misbehaves on demand: what a real one does on a bad day.

It keeps just enough of S3 for the upstream driver to put and get an object, and shows whether
uploads were left behind. Faults are set by operation, and counted down.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import formatdate

from aiohttp import web

BUCKET = "bucket"


@dataclass
class FaultySite:
    """What it holds, what it was asked, and what it shall do wrong.

    Attributes:
        faults: operation to (kind, how often still).
        seen: operation to how often it was asked.
        asked: set by the first UploadPart.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    faults: dict[str, tuple[str, int]] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    endpoint: str = ""
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def fail(self, operation: str, kind: str, times: int = 1_000_000) -> None:
        self.faults[operation] = (kind, times)

    def _fault(self, operation: str) -> str:
        self.seen[operation] += 1
        if operation == "UploadPart":
            self.asked.set()
        kind, left = self.faults.get(operation, ("", 0))
        if not left:
            return ""
        self.faults[operation] = (kind, left - 1)
        return kind

    async def handle(self, request: web.Request) -> web.StreamResponse:
        operation = _operation(request)
        fault = self._fault(operation)
        match fault:
            case "hang up":
                return _hung_up(request)
            case "stall":
                await asyncio.sleep(3600)
            case "hang up after":
                await self._answer(operation, request)
                return _hung_up(request)
        if fault.isdigit():
            return _error(int(fault), "SlowDown" if fault == "503" else "InternalError")
        if fault == "no XML":
            return web.Response(body=b"<what>", content_type="application/xml")
        if fault == "unknown error":
            return _error(418, "XTeapot")
        if fault == "bad key":
            return _error(403, "SignatureDoesNotMatch")
        if operation == "GetObject":
            return await self._get(request, fault)
        return await self._answer(operation, request)

    async def _answer(self, operation: str, request: web.Request) -> web.Response:
        key = request.path.removeprefix(f"/{BUCKET}/")
        upload = request.query.get("uploadId", "")
        match operation:
            case "PutObject":
                body = self.objects[key] = await request.read()
                return web.Response(headers={"ETag": _etag(body)})
            case "HeadObject":
                return web.Response(headers=self._head(key))
            case "CreateMultipartUpload":
                made = f"u{len(self.uploads)}"
                self.uploads[made] = {}
                return _xml(f"<R><UploadId>{made}</UploadId></R>")
            case "UploadPart":
                body = await request.read()
                self.uploads[upload][int(request.query["partNumber"])] = body
                return web.Response(headers={"ETag": _etag(body)})
            case "CompleteMultipartUpload":
                parts = self.uploads.pop(upload)
                self.objects[key] = b"".join(parts[number] for number in sorted(parts))
                return _xml('<R><ETag>"composed-2"</ETag></R>')
            case "AbortMultipartUpload":
                gone = self.uploads.pop(upload, None) is None
                return _error(404, "NoSuchUpload") if gone else web.Response(status=204)
        return _xml("<ListAllMyBucketsResult><Owner><ID>o</ID></Owner></ListAllMyBucketsResult>")

    async def _get(self, request: web.Request, fault: str) -> web.StreamResponse:
        key = request.path.removeprefix(f"/{BUCKET}/")
        data = self.objects[key]
        span = request.http_range
        part = data[span.start : span.stop]
        headers = self._head(key) | {
            "Content-Length": str(len(part)),
            "Content-Range": f"bytes {span.start}-{(span.stop or len(data)) - 1}/{len(data)}",
        }
        if fault == "wrong etag":
            headers["ETag"] = _etag(b"something else")
        if fault == "short":
            headers["Content-Length"] = str(len(part) - 1)
            part = part[:-1]
        response = web.StreamResponse(status=206, headers=headers)
        await response.prepare(request)
        if fault == "cut":
            await response.write(part[: len(part) // 2])
            _hung_up(request)
            return response
        if fault == "stall in body":
            await response.write(part[: len(part) // 2])
            await asyncio.sleep(3600)
        await response.write(part)
        await response.write_eof()
        return response

    def _head(self, key: str) -> dict[str, str]:
        data = self.objects[key]
        return {
            "ETag": _etag(data),
            "Content-Length": str(len(data)),
            "Last-Modified": formatdate(1_700_000_000, usegmt=True),
        }


def _operation(request: web.Request) -> str:
    key = request.path.removeprefix(f"/{BUCKET}").strip("/")
    if not key:
        return "Bucket" if request.path.strip("/") else "ListBuckets"
    match request.method, "uploads" in request.query, "uploadId" in request.query:
        case "POST", True, _:
            return "CreateMultipartUpload"
        case "POST", _, True:
            return "CompleteMultipartUpload"
        case "PUT", _, True:
            return "UploadPart"
        case "DELETE", _, True:
            return "AbortMultipartUpload"
    return {"PUT": "PutObject", "GET": "GetObject", "HEAD": "HeadObject"}[request.method]


def _hung_up(request: web.Request) -> web.Response:
    """Nobody reads the answer any more."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def _xml(text: str) -> web.Response:
    return web.Response(body=text.encode(), content_type="application/xml")


def _error(status: int, code: str) -> web.Response:
    text = f"<Error><Code>{code}</Code><Message>on demand</Message><Extra>x</Extra></Error>"
    return web.Response(status=status, body=text.encode(), content_type="application/xml")


@asynccontextmanager
async def faulty_site() -> AsyncIterator[FaultySite]:
    """Served on a free port of this host."""
    site = FaultySite()
    app = web.Application(client_max_size=1024**3)
    app.router.add_route("*", "/{path:.*}", site.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    host, port = runner.addresses[0]
    site.endpoint = f"http://{host}:{port}"
    try:
        yield site
    finally:
        await runner.cleanup()
