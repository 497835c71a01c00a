"""admin: what the listener tells, over a real socket, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest
from loopback_gateway import LoopbackGateway
from prometheus_client.parser import text_string_to_metric_families

from gateway.config import AdminConfig
from gateway.errors import InternalError, TransportError
from gateway.telemetry.catalogue import READY
from gateway.telemetry.recent import RecentErrors
from gateway.telemetry.registry import Registry
from gateway.web.admin import AdminServer, Answers, is_loopback
from gateway.web.admin_readiness import Readiness, Try
from gateway.web.admin_status import Status


async def well() -> None:
    """Nothing is wrong."""


async def down() -> None:
    raise TransportError("RDMA port loop0/1 is down.")


async def broken() -> None:
    raise InternalError("the disk is full")


def readiness(clock: object = time.monotonic, interval_s: float = 0, **tries: Try) -> Readiness:
    return Readiness(tries, timeout_s=0.05, interval_s=interval_s, clock=clock)  # type: ignore[arg-type]


class Admin:
    """A listener, and a client of its own for each request."""

    def __init__(self, tries: Mapping[str, Try], config: AdminConfig) -> None:
        gateway = LoopbackGateway(rdma_off=True)
        self.registry = Registry()
        ready = readiness(**tries)
        self.registry.add(ready)
        status = Status(0, self.registry, gateway.rdma, None, "off", RecentErrors(), time.time, 1.0)
        self.server = AdminServer(config, Answers(self.registry, ready, status))

    async def ask(
        self, path: str, method: str = "GET", host: str | None = None
    ) -> tuple[int, aiohttp.ClientResponse, str]:
        headers = {} if host is None else {"Host": host}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, f"http://127.0.0.1:{self.port}{path}", headers=headers
            ) as reply,
        ):
            return reply.status, reply, await reply.text()

    async def start(self) -> None:
        self.port = await self.server.start(0)


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    made = Admin({"storage": well, "fabric": well}, AdminConfig())
    await made.start()
    yield made
    await made.server.stop()


async def test_metrics__asked__is_prometheus_text(admin: Admin) -> None:
    status, reply, text = await admin.ask("/metrics")
    assert status == 200
    assert reply.headers["Content-Type"].startswith("text/plain; version=")
    assert list(text_string_to_metric_families(text))


async def test_healthz__loop_runs__is_ok(admin: Admin) -> None:
    assert (await admin.ask("/healthz"))[::2] == (200, "ok\n")


async def test_readyz__all_well__says_so(admin: Admin) -> None:
    status, _, text = await admin.ask("/readyz")
    assert status == 200
    assert json.loads(text) == {"ready": True, "checks": {"storage": "ok", "fabric": "ok"}}


async def test_readyz__something_failed__is_503_and_names_it() -> None:
    admin = Admin({"storage": broken, "fabric": down}, AdminConfig())
    await admin.start()
    status, _, text = await admin.ask("/readyz")
    await admin.server.stop()
    told = json.loads(text)
    assert (status, told["ready"]) == (503, False)
    assert told["checks"] == {
        "storage": "the disk is full",
        "fabric": "RDMA port loop0/1 is down.",
    }


async def test_status__asked__is_json(admin: Admin) -> None:
    status, reply, text = await admin.ask("/status")
    assert (status, reply.content_type) == (200, "application/json")
    assert json.loads(text)["fabric"] == {"up": False, "because": "off"}


@pytest.mark.parametrize("path", ["/", "/status.js", "/status.css", "/metrics", "/nowhere"])
async def test_any__reply__forbids_what_a_page_need_not_do(admin: Admin, path: str) -> None:
    _, reply, _ = await admin.ask(path)
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Cache-Control"] == "no-store"
    assert "Python" not in reply.headers["Server"]


@pytest.mark.parametrize(
    ("path", "method", "expected"),
    [("/nowhere", "GET", 404), ("/", "POST", 405), ("/", "HEAD", 200)],
)
async def test_any__other_request__gets_its_status(
    admin: Admin, path: str, method: str, expected: int
) -> None:
    status, _, text = await admin.ask(path, method)
    assert status == expected
    assert method != "HEAD" or text == ""


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:9001", 200),
        ("127.0.0.1:9001", 200),
        ("[::1]:9001", 200),
        ("rebound.example.org", 403),
        ("rebound.example.org:9001", 403),
    ],
)
async def test_loopback__foreign_name__is_refused(admin: Admin, host: str, expected: int) -> None:
    assert (await admin.ask("/status", host=host))[0] == expected


async def test_connections__more_than_allowed__get_503() -> None:
    admin = Admin({}, AdminConfig(max_connections=1))
    await admin.start()
    _, held = await asyncio.open_connection("127.0.0.1", admin.port)
    status, _, text = await admin.ask("/healthz")
    assert status == 503
    assert "admin.max_connections" in text
    held.close()
    await held.wait_closed()
    await admin.server.stop()


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "192.0.2.1", "gateway")],
)
def test_is_loopback__addresses__only_those_of_this_host(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


async def test_verdict__asked_again_soon__tries_once() -> None:
    tried = []

    async def count() -> None:
        tried.append(1)

    now_s = 100.0
    ready = readiness(lambda: now_s, 5, storage=count)
    await asyncio.gather(ready.verdict(), ready.verdict())
    await ready.verdict()
    assert len(tried) == 1
    now_s = 105.0
    await ready.verdict()
    assert len(tried) == 2


async def test_verdict__try_hangs__is_reported_and_not_piled_up() -> None:
    tried, goes_on = [], asyncio.Event()

    async def hang() -> None:
        tried.append(1)
        await goes_on.wait()

    ready = readiness(storage=hang, fabric=well)
    for _ in range(2):
        assert await ready.verdict() == {"storage": "no answer within 0.05 s", "fabric": ""}
    assert len(tried) == 1
    goes_on.set()
    await asyncio.sleep(0)
    assert (await ready.verdict())["storage"] == ""


async def test_verdict__bug_in_a_try__is_a_reason() -> None:
    async def bug() -> None:
        raise ZeroDivisionError

    ready = readiness(storage=bug)
    assert await ready.verdict() == {"storage": "ZeroDivisionError"}
    assert [(one.labels, one.value) for one in ready.metrics()] == [(("storage",), 0)]
    assert all(one.family is READY for one in ready.metrics())
