"""SIGHUP while clients work: keys, certificate, log level and limits change; no request fails."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest
from certificates import Authority
from gateway_process import GatewayProcess, gateway_process
from signed_http import signed

BUCKET = "reloaded"
CLIENTS = 8
RELOADS = 5
LOG_LIMIT_S = 30.0
FIRST, SECOND = ("AKFIRST", "first-secret"), ("AKSECOND", "second-secret")


@dataclass(frozen=True)
class Files:
    """What a gateway reads, changed in one step each."""

    authority: Authority
    directory: Path

    def write_keys(self, *keys: tuple[str, str]) -> None:
        sections = "\n".join(
            f"[{key}]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"
            for key, secret in keys
        )
        fresh = self.directory / "keys.new"
        fresh.touch(0o600)
        fresh.write_text(sections)
        fresh.replace(self.directory / "keys")

    def write_settings(self, text: str) -> None:
        fresh = self.directory / "settings.new"
        fresh.write_text(text)
        fresh.replace(self.directory / "settings")


@dataclass(frozen=True)
class Served(Files):
    """A gateway whose files the test changes."""

    process: GatewayProcess

    def hang_up(self) -> None:
        os.kill(self.process.pid, signal.SIGHUP)

    async def status(self, key: tuple[str, str], session: aiohttp.ClientSession) -> int:
        """Of one request, signed by that key."""
        process = replace(self.process, access_key=key[0], secret_key=key[1], scheme="https")
        async with signed(session, process, "GET", f"/{BUCKET}/object") as reply:
            await reply.read()
            return reply.status

    async def certificate(self) -> str:
        """The serial number of the certificate that a new connection sees."""
        trusting = ssl.create_default_context(cafile=str(self.authority.bundle))
        _, writer = await asyncio.open_connection(*self.process.address, ssl=trusting)
        found: str = writer.get_extra_info("peercert")["serialNumber"]
        writer.close()
        await writer.wait_closed()
        return found

    async def logged(self, pattern: str, count: int) -> None:
        """Until the log has so many such lines."""
        async with asyncio.timeout(LOG_LIMIT_S):
            while len(self.process.log_lines(pattern)) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # another process writes it


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    authority = Authority(tmp_path)
    authority.issue()
    files = Files(authority, tmp_path)
    files.write_keys(FIRST)
    files.write_settings('[log]\nlevel = "info"\n')
    flags = ("--config", str(tmp_path / "settings"), "--credentials-file", str(tmp_path / "keys"))
    tls = ("--tls-certificate", str(authority.certificate), "--rdma-fabric", "off")
    with gateway_process(tmp_path / "gateway", *flags, *tls) as process:
        yield Served(authority, tmp_path, process)


def connected(served: Served) -> aiohttp.ClientSession:
    """Clients that keep their connections."""
    trusting = ssl.create_default_context(cafile=str(served.authority.bundle))
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting, limit=CLIENTS + 1))


async def test_sighup__under_load__changes_everything_and_fails_no_request(
    served: Served,
) -> None:
    statuses: Counter[int] = Counter()
    done = asyncio.Event()

    async def work(session: aiohttp.ClientSession) -> None:
        while not done.is_set():
            statuses[await served.status(FIRST, session)] += 1

    async with connected(served) as session:
        process = replace(served.process, access_key=FIRST[0], secret_key=FIRST[1], scheme="https")
        for path, body in ((f"/{BUCKET}", b""), (f"/{BUCKET}/object", os.urandom(100_000))):
            async with signed(session, process, "PUT", path, body) as reply:
                assert reply.status == 200
        before = await served.certificate()
        assert await served.status(SECOND, session) == 403
        clients = [asyncio.ensure_future(work(session)) for _ in range(CLIENTS)]
        served.write_keys(FIRST, SECOND)
        served.write_settings('[log]\nlevel = "debug"\n[limits]\nrequests_per_s = 100000.0\n')
        for number in range(1, RELOADS + 1):
            served.authority.issue()
            served.hang_up()
            await served.logged("new connections get the certificate", number)
        assert await served.status(SECOND, session) == 200
        assert await served.certificate() != before
        served.write_settings("[limits]\nno_such = 1\n")
        served.hang_up()
        await served.logged("the old settings stay: .*unknown setting limits.no_such", 1)
        done.set()
        await asyncio.gather(*clients)
        assert set(statuses) == {200}, statuses
        assert statuses[200] >= CLIENTS


async def test_sighup__new_limits__hold_at_once(served: Served) -> None:
    async with connected(served) as session:
        served.write_settings("[limits]\nrequests_per_s = 0.001\n")
        served.hang_up()
        await served.logged("read again: keys, certificates", 1)
        assert await served.status(FIRST, session) == 404
        process = replace(served.process, access_key=FIRST[0], secret_key=FIRST[1], scheme="https")
        async with signed(session, process, "GET", f"/{BUCKET}/object") as reply:
            text = await reply.text()
            assert (reply.status, reply.headers["Retry-After"]) == (503, "1000")
            assert "<Code>SlowDown</Code>" in text
            assert "limits.requests_per_s" in text


async def test_certificate_file__changed__is_seen_without_a_signal(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue()
    flags = ("--tls-certificate", str(authority.certificate), "--tls-look-interval-s", "0.1")
    with gateway_process(tmp_path / "gateway", "--rdma-fabric", "off", *flags) as process:
        served = Served(authority, tmp_path, process)
        before = await served.certificate()
        (tmp_path / "broken").write_text("nothing")
        (tmp_path / "broken").replace(authority.certificate)
        await served.logged("the old certificate stays: tls.certificate", 1)
        assert await served.certificate() == before
        authority.issue()
        await served.logged("new connections get the certificate", 1)
        assert await served.certificate() != before
