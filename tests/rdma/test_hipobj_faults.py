"""What goes wrong between a client and the whole gateway, over a real RDMA device.

Every test ends with the same proof: all lanes can be lent again, so nothing was leaked; and no
object is there that should not be. Soft-RoCE with retry_cnt 7 retries for ever: what ends a wait
here is always the gateway's own deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest
import raw_hipobj as raw
from gateway_process import GatewayProcess, gateway_process
from raw_rdma import RawPeer, raw_peer

from gateway.client import Client, S3Error
from gateway.config import MIB
from gateway.dataplane.port import QpAddress
from gateway.errors import TransportError

pytestmark = [pytest.mark.rdma, pytest.mark.timeout(240)]

BUCKET = "bucket"
DEVICES = (os.environ.get("RDMA_VM_DEVICES") or "rxe0 rxe1").split()
LANES, LANE_BYTES = 3, MIB
PREPARE_S, TRANSFER_S = 3.0, 4.0
DATA = bytes(range(256)) * 1024

FLAGS = (
    *("--rdma-device", DEVICES[0]),
    *("--rdma-fabric", "verbs"),
    *("--rdma-lanes", f"{LANES}x1MiB"),
    *("--rdma-prepare-timeout-s", str(PREPARE_S)),
    *("--rdma-transfer-timeout-s", str(TRANSFER_S)),
    *("--log-level", "debug"),
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path_factory.mktemp("gateway"), *FLAGS) as running:
        yield running


@pytest.fixture
async def plain(gateway: GatewayProcess) -> AsyncIterator[Client]:
    """The same objects over HTTP."""
    async with open_plain(gateway) as client:
        if not await client.list_buckets():
            await client.create_bucket(BUCKET)
            await client.put_from(BUCKET, "old", DATA)
        yield client


@pytest.fixture
async def peer(gateway: GatewayProcess, plain: Client) -> AsyncIterator[RawPeer]:
    async with raw_peer(gateway, DEVICES[-1]) as opened:
        yield opened
        await all_lanes_are_back(opened)


def open_plain(gateway: GatewayProcess) -> Client:
    from botocore.credentials import Credentials

    return Client(
        endpoint_url=gateway.endpoint,
        region_name="us-east-1",
        credentials=Credentials(gateway.access_key, gateway.secret_key),
        rdma="never",
    )


async def all_lanes_are_back(peer: RawPeer) -> None:
    """As many sessions at once as there are lanes; then they are given up again."""
    deadline_s = time.monotonic() + PREPARE_S + TRANSFER_S + 5
    async with peer.side(8) as side:
        while True:
            answers = [await peer.prepare(side, "PUT", f"/{BUCKET}/probe") for _ in range(LANES)]
            for answer in answers:
                if answer.status == 200:
                    await peer.cancel(answer.headers["x-amz-rdma-session"])
            if all(answer.status == 200 for answer in answers):
                return
            assert time.monotonic() < deadline_s, answers
            await asyncio.sleep(0.5)


async def absent(plain: Client, key: str) -> bool:
    try:
        await plain.head(BUCKET, key)
    except S3Error as error:
        return error.status == 404
    return False


async def works(peer: RawPeer, key: str = "works") -> bool:
    """A whole PUT and GET by RDMA."""
    stored = await peer.put(f"/{BUCKET}/{key}", DATA)
    fetched, data = await peer.get(f"/{BUCKET}/{key}", len(DATA))
    return (stored.status, fetched.status, data == DATA) == (200, 200, True)


async def abandoned(operation) -> None:
    """Let go of a transfer of ours that can't succeed."""
    operation.cancel()
    with contextlib.suppress(asyncio.CancelledError, TransportError):
        await operation


async def test_put__wrong_psn__error_and_nothing_stored(peer, plain):
    async with peer.side(DATA) as side:
        psn = side.lane.local.psn % 0xFFFFFF + 1
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/psn", psn=psn)
        writing = asyncio.ensure_future(peer.write(side, offer))
        answer = await peer.ready(side, offer.session)
        await abandoned(writing)
    assert answer.status in (408, 500)  # devices may drop such packets or refuse them
    assert await absent(plain, "psn")


async def test_get__wrong_psn__error_and_nothing_arrives(peer):
    async with peer.side(len(DATA)) as side:
        answer = await peer.prepare(side, "GET", f"/{BUCKET}/old")
        offer = raw.Offer.read(answer.headers)
        side.lane.connect(QpAddress(offer.qpn, offer.psn % 0xFFFFFF + 1, offer.gid, offer.lid))
        side.lane.post_receive()
        answer = await peer.ready(side, offer.session)
        assert not any(side.buffer)
    assert answer.status in (408, 500)


async def test_get__wrong_rkey__500_names_class_and_causes(peer):
    async with peer.side(len(DATA)) as side:
        offer = await peer.offered(side, "GET", f"/{BUCKET}/old")
        addr, rkey = side.memory
        answer = await peer.ready(side, offer.session, memory=(addr, rkey ^ 0x55))
        assert not any(side.buffer)
    assert (answer.status, answer.code) == (500, "RDMATransferFailed")
    assert "remote" in answer.message.lower()
    assert "rkey" in answer.message.lower()
    assert f"{rkey ^ 0x55:x}" not in answer.message


async def test_put__wrong_rkey__gateway_ends_it_and_nothing_stored(peer, plain):
    async with peer.side(DATA) as side:
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/forbidden")
        ready = asyncio.ensure_future(peer.ready(side, offer.session))
        await asyncio.sleep(0.3)
        with pytest.raises(TransportError):
            await peer.write(side, offer, rkey=offer.mr_rkey ^ 0x55)
        answer = await ready
    assert answer.status in (408, 500)
    assert await absent(plain, "forbidden")


async def test_put__immediate_differs_from_the_cookie__500_and_nothing_stored(peer, plain):
    async with peer.side(DATA) as side:
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/cookie")
        ready = asyncio.ensure_future(peer.ready(side, offer.session))
        await peer.write(side, offer, cookie=0xBAD)
        answer = await ready
    assert (answer.status, answer.code) == (500, "RDMATransferFailed")
    assert "cookie" in answer.message
    assert await absent(plain, "cookie")


async def test_put__shorter_than_announced__500_and_nothing_stored(peer, plain):
    async with peer.side(DATA) as side:
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/short", size=len(DATA) + 1)
        ready = asyncio.ensure_future(peer.ready(side, offer.session))
        await peer.write(side, offer)
        answer = await ready
    assert (answer.status, answer.code) == (500, "RDMATransferFailed")
    assert await absent(plain, "short")


async def test_ready__cookie_or_qpn_differs__400(peer):
    async with peer.side(DATA) as side:
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/x")
        assert (await peer.ready(side, offer.session, cookie=1)).status == 400
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/x", connect=False)
        assert (await peer.ready(side, offer.session, qpn=side.lane.local.qpn ^ 1)).status == 400


async def test_session__client_vanishes_before_ready__lane_back_after_the_timeout(peer, gateway):
    async with peer.side(8) as side:
        offers = [
            await peer.offered(side, "PUT", f"/{BUCKET}/x", connect=False) for _ in range(LANES)
        ]
        busy = await peer.prepare(side, "PUT", f"/{BUCKET}/x")
        assert (busy.status, busy.code) == (503, "SlowDown")
        assert "rdma.lanes" in busy.message
        await asyncio.sleep(PREPARE_S + 0.5)
        assert (await peer.ready(side, offers[0].session)).status == 404
    for offer in offers:
        assert gateway.log_lines(f"session={offer.session[:8]} expired")
    assert await works(peer)


async def test_put__client_vanishes_during_the_data_phase__408_within_the_deadline(peer, plain):
    async with peer.side(DATA) as side:
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/gone")
        ready = asyncio.ensure_future(peer.ready(side, offer.session))
        await asyncio.sleep(0.3)
        await side.lane.close()
        started_s = time.monotonic()
        answer = await ready
        assert time.monotonic() - started_s < TRANSFER_S + 3
    assert (answer.status, answer.code) == (408, "RDMATransferTimeout")
    assert await absent(plain, "gone")


async def test_get__clients_queue_pair_vanishes__an_error_within_the_deadline(peer):
    async with peer.side(len(DATA)) as side:
        offer = await peer.offered(side, "GET", f"/{BUCKET}/old")
        await side.lane.close()
        answer = await peer.ready(side, offer.session)
    assert answer.status in (408, 500)


async def test_put__client_hangs_up_before_the_reply__object_is_whole_or_absent(
    peer, plain, gateway
):
    async with peer.side(DATA) as side:
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/unheard")
        hang_up(gateway, raw.ready_headers(offer.session, qpn=side.lane.local.qpn))
        with contextlib.suppress(TransportError):
            await peer.write(side, offer)
    await all_lanes_are_back(peer)
    if not await absent(plain, "unheard"):
        received = bytearray(len(DATA))
        await plain.get_into(BUCKET, "unheard", received)
        assert received == DATA


def hang_up(gateway: GatewayProcess, headers: dict[str, str]) -> None:
    """Send READY and close the connection at once."""
    url = gateway.endpoint + raw.READY
    signed = raw.signed("POST", url, headers, (gateway.access_key, gateway.secret_key))
    lines = [f"POST {raw.READY} HTTP/1.1", *(f"{name}: {value}" for name, value in signed.items())]
    with socket.create_connection(gateway.address) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\ncontent-length: 0\r\n\r\n").encode())
    assert urlsplit(url).netloc == signed["host"]


async def test_cancel__during_the_data_phase__ready_ends_and_the_lane_is_back(peer, plain):
    async with peer.side(DATA) as side:
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/cancelled")
        ready = asyncio.ensure_future(peer.ready(side, offer.session))
        await asyncio.sleep(0.5)
        assert (await peer.cancel(offer.session)).status == 204
        assert (await ready).status == 404
    assert await absent(plain, "cancelled")


async def test_failure__one_session_dies__the_others_go_on(peer):
    async with peer.side(DATA) as stuck:
        offer = await peer.offered(stuck, "PUT", f"/{BUCKET}/stuck")
        ready = asyncio.ensure_future(peer.ready(stuck, offer.session))
        assert await works(peer, "beside")
        assert not ready.done()
        assert (await ready).status == 408


async def test_device_gone__clear_error_then_501_and_back_again(peer, plain, gateway):
    """Last of this gateway's: the port goes down in a data phase and comes back."""
    async with peer.side(DATA) as side:
        offer = await peer.offered(side, "PUT", f"/{BUCKET}/down")
        ready = asyncio.ensure_future(peer.ready(side, offer.session))
        await asyncio.sleep(0.5)
        await set_link("down")
        try:
            answer = await ready
            assert answer.status in (408, 500)
            refused = await peer.prepare(side, "PUT", f"/{BUCKET}/down")
            assert refused.status == 501
            assert refused.headers["x-amz-rdma-protocol-status"] == "unsupported"
        finally:
            await set_link("up")
    assert await absent(plain, "down")
    assert gateway.log_lines("is gone")
    for _ in range(40):
        if gateway.log_lines("is active again"):
            break
        await asyncio.sleep(0.25)
    assert await works(peer, "again")


async def set_link(state: str) -> None:
    """The network interface that the gateway's rxe device stands on."""
    setting = await asyncio.create_subprocess_exec("ip", "link", "set", "eth0", state)
    assert await setting.wait() == 0


def test_log__after_every_failure__no_rkey_and_no_bug(gateway):
    assert not gateway.log_lines("a bug")
    assert not gateway.log_lines("Traceback")
    assert not gateway.log_lines("mr-rkey|rkey[ =:]+(0x)?[0-9a-f]{3,}")


def test_serve__memlock_too_small__says_so_and_what_to_do(tmp_path):
    """As an ordinary user: root (CAP_IPC_LOCK) may lock without a limit."""
    tmp_path.chmod(0o777)
    command = [
        *("prlimit", "--memlock=65536:65536"),
        *("setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all"),
        *(sys.executable, "-m", "gateway", "serve", "--listen", "127.0.0.1:0"),
        *("--store", str(tmp_path / "store"), *FLAGS),
    ]
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and parent != parent.parent:
            parent.chmod(parent.stat().st_mode | 0o055)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "memory" in done.stderr
    assert "memlock" in done.stderr.lower()
