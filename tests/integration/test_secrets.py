"""Nothing that opens a door is in what the gateway tells: logs, metrics, traces, status, crash.

One gateway, everything switched on and at its most talkative; requests of all kinds by HTTP, by
sessions and by connections, good and bad; at the end it is made to crash. What was secret is known
to the test, as it sent it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import signal
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from boto3_client import boto3_client
from botocore.auth import S3SigV4Auth
from botocore.exceptions import ClientError
from gateway_process import GatewayProcess, gateway_process
from raw_http import RawClient
from raw_rc import rc_peer
from raw_rdma import RawPeer, raw_peer
from rc_client import Desk

from gateway.client.fabric import fabric_config

BUCKET = "told"
DATA = secrets.token_bytes(70_000)
SESSION_TOKEN = "IQoJb3JpZ2luX2VjEXAMPLE" + secrets.token_hex(16)
WAIT_S = 20.0
LEAST_DIGITS = 6  # of a hexadecimal rkey that can be told from other text


@dataclass
class Known:
    """What must not be told, by what it is."""

    secrets: dict[str, set[str]] = field(default_factory=dict)

    def add(self, what: str, *texts: str) -> None:
        self.secrets.setdefault(what, set()).update(texts)

    def add_rkey(self, rkey: int) -> None:
        texts = {f"{rkey:x}", str(rkey), rkey.to_bytes(4, "little").hex()}
        self.add("rkey", *(text for text in texts if len(text) >= LEAST_DIGITS))

    def found_in(self, text: str) -> list[tuple[str, str]]:
        """Whole words only: digits of a number are no rkey."""
        words = set(re.findall(r"[A-Za-z0-9+/_=-]+", text)) | set(re.findall(r"[0-9a-f]+", text))
        return [
            (what, one)
            for what, ones in self.secrets.items()
            for one in ones
            if one in words or (len(one) > 20 and one in text)
        ]


class Collector:
    """An OTLP endpoint that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent = b""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.sent += self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@dataclass
class Told:
    """All that a gateway told."""

    process: GatewayProcess
    known: Known
    collector: Collector
    access_log: Path
    pages: dict[str, str] = field(default_factory=dict)

    def everything(self) -> dict[str, str]:
        return self.pages | {
            "log": self.process.log.read_text(),
            "access log": self.access_log.read_text(),
            "traces": self.collector.sent.decode("latin-1"),
        }


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    """Every signature that a client of this test makes is known."""
    known, add_auth = Known(), S3SigV4Auth.add_auth

    def noting(self: S3SigV4Auth, request: Any) -> None:
        add_auth(self, request)
        known.add("signature", request.headers["Authorization"].rpartition("Signature=")[2])

    monkeypatch.setattr(S3SigV4Auth, "add_auth", noting)
    return known


@pytest.fixture
def told(known: Known, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    collector = Collector()
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # ms between two batches of spans
    access_log = tmp_path / "access"
    flags = ("--rdma-fabric", "soft", "--log-level", "debug", "--log-format", "json")
    more = ("--log-access", str(access_log), "--traces-endpoint", collector.endpoint)
    with gateway_process(tmp_path, *flags, *more) as process:
        known.add("secret key", process.secret_key)
        yield Told(process, known, collector, access_log)
    collector.close()


def by_http(told: Told) -> None:
    """Good requests, and bad ones of each kind."""
    process = told.process
    s3 = boto3_client(process, signature_version="s3v4")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="http", Body=DATA)
    assert s3.get_object(Bucket=BUCKET, Key="http")["Body"].read() == DATA
    with pytest.raises(ClientError):
        s3.get_object(Bucket=BUCKET, Key="missing")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "http"})
    told.known.add("signature", re.search("Signature=([^&]*)", url)[1])  # type: ignore[index]
    with urllib.request.urlopen(url) as reply:
        assert reply.read() == DATA
    s3.close()
    with RawClient(process.address, process.access_key, process.secret_key) as raw:
        token = {"x-amz-security-token": SESSION_TOKEN}
        told.known.add("session token", SESSION_TOKEN)
        assert raw.ask("GET", f"/{BUCKET}?token", headers=token).status
        presigned = raw.presigned_target("GET", f"/{BUCKET}/http")
        told.known.add("signature", presigned.rpartition("Signature=")[2].partition("&")[0])
        raw.send(raw.head("GET", f"{presigned}0&X-Amz-Security-Token={SESSION_TOKEN}", {}))
        assert raw.reply().status in (400, 403)
    with RawClient(process.address, process.access_key, told.process.secret_key + "x") as wrong:
        assert wrong.ask("GET", f"/{BUCKET}").status == 403


async def by_session(told: Told) -> None:
    """A PUT and a GET by hipobj-rc-v2, and one of each that fails."""
    async with raw_peer(told.process, "soft") as peer:
        await _session_put(told, peer)
        answer, data = await peer.get(f"/{BUCKET}/session", len(DATA))
        assert (answer.status, data) == (200, DATA)
        async with peer.side(len(DATA)) as side:
            offer = await peer.offered(side, "GET", f"/{BUCKET}/session")
            told.known.add("session", offer.session)
            told.known.add_rkey(side.memory[1])
            assert (await peer.ready(side, offer.session, cookie=1)).status == 400
            assert (await peer.ready(side, offer.session)).status == 404
            await peer.offered(side, "PUT", f"/{BUCKET}/never", connect=False)


async def _session_put(told: Told, peer: RawPeer) -> None:
    async with peer.side(DATA) as side:
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/session")
        told.known.add("session", offer.session)
        told.known.add_rkey(offer.mr_rkey)
        told.known.add_rkey(side.memory[1])
        ready = asyncio.ensure_future(peer.ready(side, offer.session))
        await peer.write(side, offer)
        assert (await ready).status == 200


async def by_connection(told: Told) -> None:
    """A PUT and a GET by an rc: token, and one with a key that opens nothing."""
    async with rc_peer(Desk.of(told.process), fabric_config("soft")) as client:
        told.known.add("connection", client.connection)
        for write in (False, True):
            buffer = bytearray(len(DATA) if write else DATA)
            async with client.lent(buffer, remote_write=write) as memory:
                told.known.add_rkey(memory.rkey)
                verb = "GET" if write else "PUT"
                answer = await client.ask(verb, f"/{BUCKET}/rc", client.token(memory))
                assert answer.status == 200
            assert buffer == DATA
        token = f"rc:{client.connection}:1000:{len(DATA):x}:dead1234"
        told.known.add_rkey(0xDEAD1234)
        assert (await client.ask("PUT", f"/{BUCKET}/rc", token)).status == 500


def test_known__in_a_text__is_found_as_a_word() -> None:
    known = Known()
    known.add_rkey(0xDEAD1234)
    known.add("signature", "ab" * 32)
    assert known.found_in(f"x rkey=dead1234, {'ab' * 32}0") == [
        ("rkey", "dead1234"),
        ("signature", "ab" * 32),
    ]
    assert known.found_in(f"rkey {0xDEAD1234}") == [("rkey", str(0xDEAD1234))]
    assert known.found_in("seconds 0.dead12345 session=abababab") == []


async def test_everything_told__of_a_full_run__has_no_secret(told: Told) -> None:
    await asyncio.to_thread(by_http, told)
    await by_session(told)
    await by_connection(told)
    for page in ("metrics", "status", "readyz", ""):
        told.pages[page or "page"] = await asyncio.to_thread(read, f"{told.process.admin}/{page}")
    await until(lambda: b"RdmaConnect" in told.collector.sent)  # spans go in batches
    os.kill(told.process.pid, signal.SIGABRT)
    await until(lambda: "Current thread" in told.process.log.read_text())
    everything = told.everything()
    for name, text in everything.items():
        assert told.known.found_in(text) == [], name
    assert {"secret key", "signature", "session token", "rkey", "session", "connection"} == set(
        told.known.secrets
    )
    check_that_it_told(told, everything)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def read(url: str) -> str:
    try:
        with urllib.request.urlopen(url) as reply:
            return reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


def check_that_it_told(told: Told, everything: dict[str, str]) -> None:
    """Silence has no secrets either: each place told of the run, under ids that belong together."""
    for moved in ("/session", "/rc"):
        assert f"{BUCKET}{moved}" in everything["log"]
    for operation in ("PutObject", "GetObject", "RdmaPrepare", "RdmaConnect", "auth", "storage"):
        assert operation in everything["traces"], operation
    for operation in ("REST.PUT.OBJECT http", "REST.GET.OBJECT rc", "POST.RDMA_PREPARE"):
        assert operation in everything["access log"], operation
    lines = [json.loads(line) for line in everything["log"].splitlines() if line.startswith("{")]
    for full in told.known.secrets["session"]:
        about = [line for line in lines if line["session"] == full[:8]]
        assert {line.get("operation") for line in about} >= {"RdmaPrepare"}
        assert len({line["request_id"] for line in about}) >= 2
    assert 's3rdma_moved_bytes_total{direction="in",path="rc"} 70000.0' in everything["metrics"]
    assert 's3rdma_moved_bytes_total{direction="out",path="rdma"} 70000.0' in everything["metrics"]
    assert "failed" in everything["status"]
