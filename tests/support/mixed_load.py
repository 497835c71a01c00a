"""Many clients that put, get, delete, copy and complete on few keys, and what each of them saw."""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field

import aiohttp
from gateway_process import GatewayProcess
from linearizable import Kind, Operation, linearizable
from signed_http import session, signed

BUCKET = "mixed"
SIZES_BYTES = (16, 2_000, 9_000, 70_000)
WEIGHTS = {"put": 30, "get": 42, "delete": 10, "copy": 10, "complete": 8}
_ETAG = re.compile(rb"<ETag>(?:\"|&quot;)(.+?)(?:\"|&quot;)</ETag>")
_UPLOAD = re.compile(rb"<UploadId>(.+?)</UploadId>")


@dataclass
class Outcome:
    """What happened.

    Attributes:
        histories: by key.
        wrong: answers that no client should see, and bodies that are no one's value.
    """

    operations: int = 0
    histories: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)

    def broken_keys(self) -> list[str]:
        """Those whose history can't be explained."""
        return [key for key, history in self.histories.items() if not linearizable(history)]


def body_of(value: str) -> bytes:
    """The bytes of a value: its name again and again, of a length that follows from it."""
    size = SIZES_BYTES[int(value.partition(".")[2]) % len(SIZES_BYTES)]
    name = f"{value} ".encode()
    return (name * (size // len(name) + 1))[:size] if size > len(name) else name


def value_of(body: bytes) -> str | None:
    """Whose bytes these are; None where they are no one's, or not all of them."""
    value = body.partition(b" ")[0].decode("ascii", "replace")
    if re.fullmatch(r"\d+\.\d+", value) and body == body_of(value):
        return value
    return None


class Client:
    """One of the clients; its values are its number and a count."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        process: GatewayProcess,
        number: int,
        keys: int,
        outcome: Outcome,
        known: dict[str, str],
    ) -> None:
        self._http = http
        self._process = process
        self._number = number
        self._keys = [f"key-{key:02}" for key in range(keys)]
        self._chance = random.Random(number)
        self._outcome = outcome
        self._known = known  # values by the ETags of their bytes
        self._made = 0

    async def run(self, operations: int) -> None:
        for _ in range(operations):
            (kind,) = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
            await getattr(self, f"_{kind}")(self._chance.choice(self._keys))
            self._outcome.operations += 1

    async def _ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, str]:
        target = f"/{BUCKET}/{path}"
        async with signed(self._http, self._process, method, target, body, headers) as reply:
            data = await reply.read()
            if reply.status >= 500 or reply.status not in (200, 204, 404):
                self._outcome.wrong.append(f"{method} {path}: {reply.status} {data[:200]!r}")
            return reply.status, data, reply.headers.get("ETag", "").strip('"')

    def _note(self, key: str, kind: Kind, value: str | None, called_at: float) -> None:
        operation = Operation(kind, value, called_at, time.perf_counter())
        self._outcome.histories[key].append(operation)

    def _new_value(self) -> tuple[str, bytes]:
        self._made += 1
        value = f"{self._number}.{self._made}"
        body = body_of(value)
        self._known[hashlib.md5(body).hexdigest()] = value
        return value, body

    async def _put(self, key: str) -> None:
        value, body = self._new_value()
        called_at = time.perf_counter()
        await self._ask("PUT", key, body)
        self._note(key, Kind.WRITE, value, called_at)

    async def _get(self, key: str) -> None:
        called_at = time.perf_counter()
        status, body, _ = await self._ask("GET", key)
        value = None
        if status == 200:
            value = value_of(body)
            if value is None:
                self._outcome.wrong.append(f"GET {key}: torn, {len(body)} bytes: {body[:60]!r}")
        self._note(key, Kind.READ, value, called_at)

    async def _delete(self, key: str) -> None:
        called_at = time.perf_counter()
        await self._ask("DELETE", key)
        self._note(key, Kind.WRITE, None, called_at)

    async def _copy(self, key: str) -> None:
        """Reads one register and writes another; or finds nothing, and writes nothing."""
        source = self._chance.choice([other for other in self._keys if other != key])
        called_at = time.perf_counter()
        from_ = {"x-amz-copy-source": f"/{BUCKET}/{source}"}
        status, answer, _ = await self._ask("PUT", key, headers=from_)
        if status == 404:
            self._note(source, Kind.READ, None, called_at)
            return
        found = _ETAG.search(answer)
        value = self._known.get(found[1].decode()) if found else None
        if value is None:
            self._outcome.wrong.append(f"copy {source} to {key}: no one's ETag: {answer[:300]!r}")
        self._note(source, Kind.READ, value, called_at)
        self._note(key, Kind.WRITE, value, called_at)

    async def _complete(self, key: str) -> None:
        value, body = self._new_value()
        _, answer, _ = await self._ask("POST", f"{key}?uploads")
        found = _UPLOAD.search(answer)
        if found is None:
            self._outcome.wrong.append(f"create upload of {key}: {answer[:200]!r}")
            return
        upload = found[1].decode()
        _, _, etag = await self._ask("PUT", f"{key}?partNumber=1&uploadId={upload}", body)
        part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
        called_at = time.perf_counter()
        await self._ask("POST", f"{key}?uploadId={upload}", document)
        self._note(key, Kind.WRITE, value, called_at)


async def mixed_load(
    process: GatewayProcess, *, operations: int, clients: int = 32, keys: int = 50
) -> Outcome:
    """So many operations, by all clients together."""
    outcome, known = Outcome(), dict[str, str]()
    async with session(clients) as http:
        async with signed(http, process, "PUT", f"/{BUCKET}") as reply:
            assert reply.status == 200, await reply.read()
        await asyncio.gather(
            *(
                Client(http, process, number, keys, outcome, known).run(
                    operations // clients + (number < operations % clients)
                )
                for number in range(clients)
            )
        )
    return outcome
