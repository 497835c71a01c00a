"""POST forms through the whole pipeline: botocore signs, urllib3 writes; all kept or refused.

The auth matrix's rows for PostObject: {version 4, version 2, anonymous} by every way to fail.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from bodies import BytesBody
from pipelines import pipeline_over
from post_forms import botocore_form
from request_heads import ACCESS_KEY, head, signed_by_botocore
from storing import new_bucket
from urllib3.fields import RequestField
from urllib3.filepost import encode_multipart_formdata

from gateway.config import HttpLimits
from gateway.storage.memory import MemoryStorage
from gateway.storage.port import ObjectInfo, VersionQuery
from gateway.web.body import Digesting, Source
from gateway.web.form import FormBody
from gateway.web.render import HttpReply
from gateway.wire.grants import Grant, Group, Permission
from gateway.wire.request import RequestHead

DATA = bytes(range(256)) * 800  # several reads of the connection
LIMITS = HttpLimits(max_object_bytes=1 << 20)
WRITE = Grant(Group.ALL_USERS, Permission.WRITE)
Fields = dict[str, str]


class Endless(BaseProtocol):
    """A connection without flow control."""

    connected = True

    def pause_reading(self) -> None: ...
    def resume_reading(self, resume_parser: bool = True) -> None: ...


def signed(version: str, fields: Fields | None = None, *conditions: Any) -> Fields:
    """A form's fields; each of `fields` is allowed to be what it is."""
    fields = fields or {}
    kept = [{name: value} for name, value in fields.items()]
    return botocore_form(version, "${filename}", dict(fields), [*kept, *conditions])


def written(fields: Fields, data: bytes) -> tuple[bytes, str]:
    """The body, and its content type."""
    parts = [RequestField.from_tuples(name, value) for name, value in fields.items()]
    parts.append(RequestField.from_tuples("file", ("up.bin", data)))
    return encode_multipart_formdata(parts)


@dataclass
class Desk:
    """A pipeline, a bucket "shop", and forms sent to it."""

    storage: MemoryStorage
    digesting: Digesting
    late_s: float = 0.0

    async def post(self, fields: Fields, data: bytes = DATA, piece_bytes: int = 9000) -> HttpReply:
        body, content_type = written(fields, data)
        return await self.send(head("POST", "/shop", content_type=content_type), body, piece_bytes)

    async def send(self, made: RequestHead, body: bytes, piece_bytes: int = 1 << 20) -> HttpReply:
        loop = asyncio.get_running_loop()
        stream = StreamReader(Endless(loop), 2**16, loop=loop)
        for at in range(0, len(body), piece_bytes):
            stream.feed_data(body[at : at + piece_bytes])
        stream.feed_eof()
        form = FormBody(Source(stream, lambda: None, 5.0), made, LIMITS, self.digesting)
        pipeline = pipeline_over(self.storage, self._now_s, LIMITS)
        return await pipeline.respond(made, lambda _: form, "ID")

    async def stored(self, key: str = "up.bin") -> tuple[ObjectInfo, bytes]:
        reader = await self.storage.open_object("shop", key, None)
        return reader.info, await reader.read(0, reader.info.size_bytes)

    async def empty(self) -> bool:
        return not (await self.storage.list_versions(VersionQuery("shop"))).versions

    def _now_s(self) -> float:
        return datetime.now(UTC).timestamp() + self.late_s


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    storage = MemoryStorage()
    await storage.create_bucket(new_bucket("shop"))
    digesting = Digesting(2, 4)
    yield Desk(storage, digesting)
    digesting.close()


def code(reply: HttpReply) -> str | None:
    return ElementTree.fromstring(reply.body).findtext("Code")


@pytest.mark.parametrize("version", ["s3v4", "s3"])
@pytest.mark.parametrize("piece_bytes", [100, 4096, 1 << 20])
async def test_post__signed__stores_the_file(desk: Desk, version: str, piece_bytes: int) -> None:
    crc32 = b64encode(zlib.crc32(DATA).to_bytes(4, "big")).decode()
    fields = signed(version, {"Content-Type": "image/x", "x-amz-meta-a": "b", "acl": "private"})
    reply = await desk.post({"x-amz-checksum-crc32": crc32, **fields}, DATA, piece_bytes)
    assert reply.status == 204
    info, data = await desk.stored()
    assert data == DATA
    assert info.etag == hashlib.md5(DATA).hexdigest()
    assert info.attributes.headers["content-type"] == "image/x"
    assert info.attributes.metadata == {"a": "b"}
    assert [*info.checksums.values()] == [crc32]


@pytest.mark.parametrize("data", [b"", b"x", DATA])
async def test_post__anonymous_where_all_may_write__stores_the_file(
    desk: Desk, data: bytes
) -> None:
    await desk.storage.update_bucket("shop", lambda info: new_bucket("shop", grants=(WRITE,)))
    assert (await desk.post({"key": "k"}, data)).status == 204
    assert (await desk.stored("k"))[1] == data


def _spoil(version: str, fault: str, fields: Fields) -> tuple[Fields, float]:
    """The form with that fault, and how late it is sent."""
    names = {"s3v4": ("x-amz-signature", "x-amz-credential"), "s3": ("signature", "AWSAccessKeyId")}
    signature, key = names[version]
    match fault:
        case "bad signature":
            first = "0" if fields[signature][0] == "1" else "1"
            return fields | {signature: first + fields[signature][1:]}, 0
        case "unknown key":
            return fields | {key: fields[key].replace(ACCESS_KEY, "AKIDUNKNOWN")}, 0
        case "other policy":
            policy = json.loads(b64decode(fields["policy"]))
            policy["conditions"].append(["starts-with", "$acl", ""])
            return fields | {"policy": b64encode(json.dumps(policy).encode()).decode()}, 0
        case "expired":
            return fields, 3601
        case "skewed":
            return fields, -3600
        case _:
            return fields | {"acl": "public-read"}, 0


@pytest.mark.parametrize("version", ["s3v4", "s3"])
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("bad signature", "SignatureDoesNotMatch"),
        ("other policy", "SignatureDoesNotMatch"),
        ("unknown key", "InvalidAccessKeyId"),
        ("expired", "AccessDenied"),
        ("skewed", "AccessDenied"),
        ("extra field", "AccessDenied"),
    ],
)
async def test_post__fault__is_refused_and_nothing_stored(
    desk: Desk, version: str, fault: str, expected: str
) -> None:
    if (version, fault) == ("s3", "skewed"):
        return  # version 2 has no time of its own
    fields, desk.late_s = _spoil(version, fault, signed(version))
    reply = await desk.post(fields)
    assert (reply.status, code(reply)) == (403, expected)
    assert await desk.empty()


@pytest.mark.parametrize(
    "form", [lambda: signed("s3v4"), lambda: signed("s3"), lambda: {"key": "k"}]
)
async def test_post__bucket_policy_denies__is_refused_and_nothing_stored(
    desk: Desk, form: Callable[[], Fields]
) -> None:
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject"}
    policy = json.dumps({"Statement": deny | {"Resource": "arn:aws:s3:::shop/*"}})
    configured = new_bucket("shop", grants=(WRITE,), settings={"policy": policy})
    await desk.storage.update_bucket("shop", lambda _: configured)
    reply = await desk.post(form())
    assert (reply.status, code(reply)) == (403, "AccessDenied")
    assert await desk.empty()


async def test_post__anonymous_by_default__is_refused(desk: Desk) -> None:
    reply = await desk.post({"key": "k"})
    assert (reply.status, code(reply)) == (403, "AccessDenied")
    assert await desk.empty()


async def test_post__signed_header_as_well__is_refused(desk: Desk) -> None:
    body, content_type = written({"key": "k"}, DATA)
    made, sent_s = signed_by_botocore(
        "POST",
        "http://gateway:9000/shop",
        {"content-type": content_type, "x-amz-content-sha256": "UNSIGNED-PAYLOAD"},
    )
    desk.late_s = sent_s - datetime.now(UTC).timestamp()
    assert code(await desk.send(made, body)) == "InvalidArgument"
    assert await desk.empty()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((0, len(DATA)), None),
        ((len(DATA), len(DATA)), None),
        ((0, len(DATA) - 1), "EntityTooLarge"),
        ((len(DATA) + 1, len(DATA) + 2), "EntityTooSmall"),
    ],
)
async def test_post__length_range__is_held(
    desk: Desk, sizes: tuple[int, int], expected: str | None
) -> None:
    reply = await desk.post(signed("s3v4", None, ["content-length-range", *sizes]))
    assert (code(reply) if reply.body else None) == expected
    assert await desk.empty() is (expected is not None)


async def test_post__small_file_over_its_range__is_refused_too(desk: Desk) -> None:
    reply = await desk.post(signed("s3v4", None, ["content-length-range", 0, 2]), b"abc")
    assert code(reply) == "EntityTooLarge"


async def test_post__over_the_gateways_limit__is_entity_too_large(desk: Desk) -> None:
    reply = await desk.post(signed("s3v4"), bytes(LIMITS.max_object_bytes + 1), 1 << 16)
    assert code(reply) == "EntityTooLarge"
    assert await desk.empty()


@pytest.mark.parametrize("name", ["x-amz-checksum-sha256", "x-amz-checksum-crc64nvme"])
async def test_post__checksum_that_differs__stores_nothing(desk: Desk, name: str) -> None:
    length = 32 if name.endswith("256") else 8
    reply = await desk.post({name: b64encode(bytes(length)).decode(), **signed("s3v4")})
    assert (reply.status, code(reply)) == (400, "BadDigest")
    assert await desk.empty()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "MalformedPOSTRequest"),
        (b"--b--", "IncorrectNumberOfFilesInPostRequest"),
        (
            b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\n' + b"k" * 30_000,
            "MaxPostPreDataLengthExceededError",
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n--b\r\n'
            b'Content-Disposition: form-data; name="file"\r\n\r\nunfinished',
            "MalformedPOSTRequest",
        ),
    ],
)
async def test_post__broken_form__stores_nothing(desk: Desk, body: bytes, expected: str) -> None:
    await desk.storage.update_bucket("shop", lambda info: new_bucket("shop", grants=(WRITE,)))
    made = head("POST", "/shop", content_type="multipart/form-data; boundary=b")
    assert code(await desk.send(made, body)) == expected
    assert await desk.empty()


async def test_post__no_form__is_the_wrong_enclosure(desk: Desk) -> None:
    reply = await desk.send(head("POST", "/shop", content_type="text/plain"), b"")
    assert (reply.status, code(reply)) == (412, "PreconditionFailed")


async def test_post__missing_bucket__is_no_such_bucket(desk: Desk) -> None:
    body, content_type = written({"key": "k"}, b"")
    reply = await desk.send(head("POST", "/none", content_type=content_type), body)
    assert (reply.status, code(reply)) == (404, "NoSuchBucket")


async def test_post__body_that_is_no_form__is_our_bug_and_500(desk: Desk) -> None:
    made = head("POST", "/shop", content_type="multipart/form-data; boundary=b")
    pipeline = pipeline_over(desk.storage, lambda: 0.0)
    reply = await pipeline.respond(made, lambda _: BytesBody(b""), "ID")
    assert reply.status == 500
