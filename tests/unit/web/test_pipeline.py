"""web.pipeline: the order of the path, with real rooms behind it and botocore as the signer."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any
from xml.etree import ElementTree

import pytest
from bodies import BytesBody
from pipelines import pipeline_over
from request_heads import head, presigned_by_botocore, signed_by_botocore, with_header
from storing import new_bucket

from gateway.auth.principal import OWNER_ID
from gateway.auth.sigv4 import Verified
from gateway.errors import InternalError
from gateway.s3.body import Body
from gateway.storage.memory import MemoryStorage
from gateway.web.pipeline import steers_rdma
from gateway.web.render import HttpReply
from gateway.wire.request import RequestHead

HOST = "http://gateway:9000"
DATA = b"some bytes"


@dataclass
class Desk:
    """A pipeline, and what it asked for on the way."""

    storage: MemoryStorage
    opened: list[Verified] = field(default_factory=list)
    now_s: float = 0.0

    async def respond(self, made: RequestHead, data: bytes = b"") -> HttpReply:
        def open_body(verified: Verified) -> Body:
            self.opened.append(verified)
            return BytesBody(data)

        pipeline = pipeline_over(self.storage, lambda: self.now_s)
        return await pipeline.respond(made, open_body, "ID")

    async def signed(
        self, method: str, target: str, data: bytes = b"", **headers: str
    ) -> HttpReply:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields["x-amz-content-sha256"] = "UNSIGNED-PAYLOAD"
        made, self.now_s = signed_by_botocore(method, HOST + target, fields)
        return await self.respond(made, data)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    storage = MemoryStorage()
    await storage.start()
    await storage.create_bucket(new_bucket("shop"))
    yield Desk(storage)
    await storage.stop()


def code(reply: HttpReply) -> str | None:
    return ElementTree.fromstring(reply.body).findtext("Code")


async def test_respond__signed_put_then_get__go_all_the_way(desk: Desk) -> None:
    put = await desk.signed("PUT", "/shop/k", DATA)
    assert put.status == 200
    assert ("etag", f'"{hashlib.md5(DATA).hexdigest()}"') in put.headers
    got = await desk.signed("GET", "/shop/k")
    assert got.delivery is not None
    assert await got.delivery.reader.read(0, len(DATA)) == DATA
    await got.delivery.reader.close()


async def test_respond__presigned__goes_all_the_way(desk: Desk) -> None:
    made, desk.now_s = presigned_by_botocore("PUT", f"{HOST}/shop/k", {})
    assert (await desk.respond(made, DATA)).status == 200
    assert desk.opened[0].presigned


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda made: replace(made, raw_path="/shop/other"), "SignatureDoesNotMatch"),
        (lambda made: with_header(made, "authorization", None), "AccessDenied"),
    ],
)
async def test_respond__not_authenticated__never_opens_the_body(
    desk: Desk, change: Callable[[RequestHead], RequestHead], expected: str
) -> None:
    made, desk.now_s = signed_by_botocore("PUT", f"{HOST}/shop/k", {})
    reply = await desk.respond(change(made), DATA)
    assert (reply.status, code(reply)) == (403, expected)
    assert desk.opened == []


async def test_respond__clock_is_far_off__is_request_time_too_skewed(desk: Desk) -> None:
    made, sent_s = signed_by_botocore("GET", f"{HOST}/shop", {})
    desk.now_s = sent_s + 3600
    assert code(await desk.respond(made)) == "RequestTimeTooSkewed"


async def test_respond__unroutable__names_the_resource(desk: Desk) -> None:
    reply = await desk.signed("PATCH", "/shop/k%20")
    assert (reply.status, code(reply)) == (405, "MethodNotAllowed")
    root = ElementTree.fromstring(reply.body)
    assert (root.findtext("Resource"), root.findtext("RequestId")) == ("/shop/k%20", "ID")


async def test_respond__verb_refuses__is_its_error(desk: Desk) -> None:
    reply = await desk.signed("GET", "/shop/none")
    assert (reply.status, code(reply)) == (404, "NoSuchKey")


@pytest.mark.parametrize("failure", [InternalError("disk on fire"), ZeroDivisionError("oops")])
async def test_respond__disk_or_bug__is_500_with_the_cause_in_the_log_only(
    desk: Desk, failure: Exception, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    async def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(desk.storage, "open_object", fail)
    reply = await desk.signed("GET", "/shop/k")
    assert (reply.status, code(reply)) == (500, "InternalError")
    assert b"fire" not in reply.body
    assert b"oops" not in reply.body
    assert "fire" in caplog.text or "oops" in caplog.text


async def test_respond__rdma_path__is_answered_after_authentication(desk: Desk) -> None:
    target = "/.hipobj-rc/prepare"
    unsigned = await desk.respond(head("POST", target, authorization="AWS4-HMAC-SHA256 x"))
    assert unsigned.status == 400
    reply = await desk.signed("POST", target, x_amz_rdma_protocol="hipobj-rc-v2")
    assert reply.status == 501
    assert ("x-amz-rdma-protocol-status", "unsupported") in reply.headers
    assert desk.opened == []


async def test_respond__put_with_a_dc_token__stores_nothing_and_has_no_etag(desk: Desk) -> None:
    token = ":".join(("0" * 16, "0" * 8, "0" * 8, "0" * 4, "0" * 6, "1", "0" * 32))
    reply = await desk.signed("PUT", "/shop/k", x_amz_rdma_token=token)
    assert (reply.status, code(reply)) == (200, "RDMANotSupported")
    names = [name for name, _ in reply.headers]
    assert "etag" not in names
    assert (await desk.signed("GET", "/shop/k")).status == 404


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/.hipobj-rc/ready", True), ("/.hipobj-rc/other", False), ("/bucket/key", False)],
)
def test_steers_rdma__control_paths_only(path: str, expected: bool) -> None:
    assert steers_rdma(head("POST", path)) is expected


@pytest.mark.parametrize(("expected", "status"), [(OWNER_ID, 200), ("111122223333", 403)])
async def test_respond__expected_bucket_owner__must_be_the_buckets(
    desk: Desk, expected: str, status: int
) -> None:
    put = await desk.signed("PUT", "/shop/k", DATA, x_amz_expected_bucket_owner=expected)
    assert put.status == status
    await desk.signed("PUT", "/shop/source", DATA)
    copy = await desk.signed(
        "PUT",
        "/shop/copy",
        x_amz_expected_bucket_owner=OWNER_ID,
        x_amz_source_expected_bucket_owner=expected,
        x_amz_copy_source="/shop/source",
    )
    assert copy.status == status
    made = await desk.signed("PUT", "/third", x_amz_expected_bucket_owner=OWNER_ID)
    assert made.status == 200


# Pages of other origins


@pytest.fixture
async def cors(desk: Desk) -> Desk:
    """The desk, whose bucket "shop" lets pages of http://a read it."""
    rule = (
        b"<CORSConfiguration><CORSRule><AllowedOrigin>http://a</AllowedOrigin>"
        b"<AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>"
    )
    assert (await desk.signed("PUT", "/shop?cors", rule)).status == 200
    return desk


async def test_respond__preflight__is_answered_unsigned(cors: Desk) -> None:
    asked = {"origin": "http://a", "access-control-request-method": "GET"}
    reply = await cors.respond(head("OPTIONS", "/shop/k?X-Amz-Signature=0", **asked))
    assert reply.status == 200
    assert reply.headers.count(("access-control-allow-origin", "http://a")) == 1
    denied = await cors.respond(head("OPTIONS", "/shop/k", **{**asked, "origin": "http://b"}))
    assert (denied.status, code(denied)) == (403, "AccessForbidden")


@pytest.mark.parametrize(("target", "status"), [("/shop", 200), ("/shop/none", 404)])
async def test_respond__reply_and_error_to_an_allowed_origin__may_be_read(
    cors: Desk, target: str, status: int
) -> None:
    reply = await cors.signed("GET", target, origin="http://a")
    assert reply.status == status
    assert ("access-control-allow-origin", "http://a") in reply.headers
    assert dict(reply.headers)["vary"].startswith("Origin")


async def test_respond__unsigned_error_to_an_allowed_origin__may_be_read(cors: Desk) -> None:
    reply = await cors.respond(head("GET", "/shop/k", origin="http://a"))
    assert reply.status == 403
    assert ("access-control-allow-origin", "http://a") in reply.headers


async def test_respond__no_origin_or_no_such_address__says_nothing_of_origins(cors: Desk) -> None:
    for reply in (
        await cors.signed("GET", "/shop"),
        await cors.signed("GET", "/", origin="http://a"),
        await cors.respond(head("GET", "/%ff", origin="http://a")),
    ):
        assert not any(name.startswith(("access-control", "vary")) for name, _ in reply.headers)
