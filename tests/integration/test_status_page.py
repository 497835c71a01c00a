"""The status page in a real browser: it loads under its own policy, and shows what goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from boto3_client import boto3_client
from browser import browser_page, chromium
from gateway_process import GatewayProcess, gateway_process
from raw_rdma import raw_peer

BUCKET = "seen"
HOSTILE_KEY = "<img src=x onerror=alert(1)>"
SIZE_BYTES = 300_000

pytestmark = pytest.mark.skipif(
    chromium() is None and not os.environ.get("CI"),
    reason="*** NO BROWSER: THE STATUS PAGE WAS NOT TESTED *** (apt-get install chromium)",
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("status")
    with gateway_process(directory, "--rdma-fabric", "soft") as process:
        yield process


async def test_page__session_and_failure__are_shown_as_text(
    gateway: GatewayProcess, tmp_path: Path
) -> None:
    s3 = boto3_client(gateway)
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="object", Body=bytes(SIZE_BYTES))
    async with (
        raw_peer(gateway, "soft") as peer,
        peer.side(SIZE_BYTES) as side,
        browser_page(tmp_path) as page,
    ):
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/{HOSTILE_KEY}")
        await page.open(f"{gateway.admin}/")
        await page.until("document.querySelector('#live tr td:nth-child(4)')")
        shown = await page.value("document.querySelector('#live').innerText")
        assert offer.session[:8] in shown
        assert gateway.access_key in shown
        assert "prepared" in shown
        assert f"PUT {BUCKET}/" in shown
        assert offer.session not in await page.value("document.documentElement.outerHTML")
        assert await page.value("document.querySelector('#state').textContent") == "live"
        assert "127." in await page.value("document.querySelector('#fabric').innerText")
        assert "1 lent" in await page.value("document.querySelector('#staging').innerText")
        assert not await page.value("document.images.length")
        await page.screenshot(tmp_path / "status.png")
        assert (await peer.ready(side, offer.session, cookie=1)).status == 400
        await page.until("document.querySelector('#live td.none')")
        await page.until("document.querySelector('#errors tr.warning')")
        told = await page.value("document.querySelector('#errors').innerText")
        assert f"session={offer.session[:8]}" in told
        assert "failed after" in told
        await page.screenshot(tmp_path / "failure.png")
        assert page.complaints == []
    assert (tmp_path / "status.png").stat().st_size > 20_000


async def test_page__gateway_gone__says_so(tmp_path: Path) -> None:
    with gateway_process(tmp_path / "gone", "--rdma-fabric", "off") as process:
        async with browser_page(tmp_path) as page:
            await page.open(f"{process.admin}/")
            await page.until("document.querySelector('#state.good')")
            assert "off" in await page.value("document.querySelector('#fabric').innerText")
            await page.value("window.fetch = () => Promise.reject(new Error('refused')), refresh()")
            await page.until("document.querySelector('#state.bad')")
            state = await page.value("document.querySelector('#state').textContent")
            assert state == "no answer: refused"
