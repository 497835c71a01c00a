"""What goes wrong on the wire, in time, or because somebody left: a clear error, nothing stored,
and everything that was borrowed back (the fixture checks that after every test)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
from dataclasses import replace

import pytest
import raw_hipobj as raw
from loopback_gateway import CONFIG, LoopbackGateway
from storing import new_bucket

from gateway.dataplane.port import QpAddress
from gateway.errors import ClientError, S3Code, TransportError
from gateway.rdma.sessions import State

DATA = bytes(range(256)) * 16


@pytest.fixture
async def quick():
    """A gateway whose data phase ends soon: only lanes wait in real time."""
    made = LoopbackGateway(replace(CONFIG, transfer_timeout_s=0.05))
    await made.store("bucket", "old", DATA)
    yield made
    await made.settled()


async def absent(gateway: LoopbackGateway, key: str) -> bool:
    try:
        await gateway.storage.head_object("bucket", key, None)
    except ClientError as error:
        return error.code is S3Code.NO_SUCH_KEY
    return False


async def test_put__client_never_writes__408_within_the_deadline(quick, caplog):
    side = quick.client(DATA)
    offer = await quick.offered(side, "PUT", "/bucket/key")
    answer = await quick.ready(side, offer.session)
    assert (answer.status, answer.code) == (408, "RDMATransferTimeout")
    assert await absent(quick, "key")
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == 1
    assert warned[0].startswith("rdma PUT bucket/key 4096 bytes failed after ")
    assert quick.service.stats().failures == 1


async def test_get__client_never_acknowledges__408_within_the_deadline(quick):
    side = quick.client(len(DATA))
    offer = await quick.offered(side, "GET", "/bucket/old")
    quick.wire.drop = True
    answer = await quick.ready(side, offer.session)
    assert (answer.status, answer.code) == (408, "RDMATransferTimeout")


async def test_get__wrong_psn__408_for_the_packets_vanish(quick):
    side = quick.client(len(DATA))
    local = side.lane.local
    wrong = local.psn % 0xFFFFFF + 1
    offer = await quick.offered(side, "GET", "/bucket/old", psn=wrong)
    answer = await quick.ready(side, offer.session)
    assert answer.status == 408
    assert not any(side.buffer)


@pytest.mark.parametrize("change", [(0, 1), (8, 0)])
async def test_get__wrong_rkey_or_beyond_the_buffer__500_with_class(gateway, change):
    await gateway.store("bucket", "old", DATA)
    side = gateway.client(len(DATA))
    offer = await gateway.offered(side, "GET", "/bucket/old")
    addr, rkey = side.memory
    answer = await gateway.ready(side, offer.session, memory=(addr + change[0], rkey + change[1]))
    assert (answer.status, answer.code) == (500, "RDMATransferFailed")
    assert "remote" in answer.message
    assert not any(side.buffer)


@pytest.mark.parametrize("fault", ["cookie", "short"])
async def test_put__immediate_or_length_not_as_announced__500_and_nothing_stored(gateway, fault):
    side = gateway.client(DATA)
    size = len(DATA) + (fault == "short")
    offer = await gateway.offered(side, "PUT", "/bucket/key", size=size)
    ready = asyncio.ensure_future(gateway.ready(side, offer.session))
    await gateway.write(side, offer, cookie=0xBAD if fault == "cookie" else 0xC0FFEE)
    answer = await ready
    assert (answer.status, answer.code) == (500, "RDMATransferFailed")
    assert await absent(gateway, "key")


@pytest.mark.parametrize(
    ("step", "error", "status"),
    [
        ("post_receive", TransportError("no work request"), 500),
        ("connect", TransportError("the device is gone"), 500),
        ("lease", ClientError(S3Code.RDMA_TRANSFER_TOO_LARGE), 413),
    ],
)
async def test_prepare__fabric_refuses__its_error_and_the_place_is_free(
    gateway, step, error, status
):
    gateway.fabric.fail[step] = error
    answer = await gateway.prepare(gateway.client(DATA), "PUT", "/bucket/key")
    assert answer.status == status
    await gateway.settled()


async def test_put__client_writes_right_after_prepare__nothing_is_lost(gateway):
    side = gateway.client(DATA)
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    await gateway.write(side, offer)
    answer = await gateway.ready(side, offer.session)
    assert answer.status == 200


async def test_put__loopback_token_can_not_be_connected__500_and_nothing_stored(gateway):
    side = gateway.client(DATA)
    offer = await gateway.offered(side, "PUT", "/bucket/key", token="0" * 88)
    gateway.fabric.fail["connect"] = TransportError("the device is gone")
    answer = await gateway.ready(side, offer.session)
    assert (answer.status, answer.message) == (500, "the device is gone")
    assert await absent(gateway, "key")


@pytest.mark.parametrize("step", ["received", "store"])
async def test_put__step_fails__500_and_nothing_stored(gateway, step):
    gateway.fabric.fail[step] = TransportError("the device is gone")
    side = gateway.client(DATA)
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    ready = asyncio.ensure_future(gateway.ready(side, offer.session))
    await asyncio.sleep(0)
    await gateway.write(side, offer)
    answer = await ready
    assert (answer.status, answer.message) == (500, "the device is gone")
    assert await absent(gateway, "key")


@pytest.mark.parametrize(
    "declared",
    [
        {"content-md5": base64.b64encode(hashlib.md5(b"other").digest()).decode()},
        {"x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(b"other").digest()).decode()},
    ],
)
async def test_put__bytes_are_not_what_was_declared__400_and_nothing_stored(gateway, declared):
    answer = await gateway.put("/bucket/key", DATA, extra=declared)
    assert (answer.status, answer.code) == (400, "BadDigest")
    assert await absent(gateway, "key")


async def test_put__bytes_are_what_was_declared__stored_with_that_checksum(gateway):
    sha256 = base64.b64encode(hashlib.sha256(DATA).digest()).decode()
    md5 = base64.b64encode(hashlib.md5(DATA).digest()).decode()
    extra = {"x-amz-checksum-sha256": sha256, "content-md5": md5}
    answer = await gateway.put("/bucket/key", DATA, extra=extra)
    assert answer.status == 200
    info = await gateway.storage.head_object("bucket", "key", None)
    assert {name.label: value for name, value in info.checksums.items()} == {"SHA256": sha256}


async def test_session__no_ready_in_time__lane_back_without_anyone_asking(gateway, caplog):
    side = gateway.client(DATA)
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    gateway.clock.now_s += CONFIG.prepare_timeout_s - 0.1
    gateway.service.expire()
    assert gateway.fabric.lent == 1
    gateway.clock.now_s += 0.1
    gateway.service.expire()
    await gateway.settled()
    assert "expired without READY" in caplog.text
    assert offer.session not in caplog.text
    assert (await gateway.ready(side, offer.session)).status == 404


async def test_session__own_timer__expires_it():
    gateway = LoopbackGateway(replace(CONFIG, prepare_timeout_s=0.02))
    await gateway.storage.create_bucket(new_bucket("bucket"))
    await gateway.offered(gateway.client(DATA), "PUT", "/bucket/key")
    gateway.clock.now_s += 1  # the timer asks this clock whether the deadline has passed
    await gateway.settled()


@pytest.mark.parametrize("step", ["received", "store"])
async def test_put__http_client_vanishes__lane_back_and_never_a_torn_object(gateway, step):
    gate = gateway.fabric.pauses[step] = asyncio.Event()
    side = gateway.client(DATA)
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    ready = asyncio.ensure_future(gateway.ready(side, offer.session))
    await asyncio.sleep(0)
    await gateway.write(side, offer)
    await asyncio.sleep(0.01)
    ready.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ready
    gate.set()
    await gateway.settled()
    if step == "received":  # the data phase had not ended: given up
        assert await absent(gateway, "key")
    else:  # past recall: committed, though nobody was there to hear it
        assert await gateway.stored("bucket", "key") == DATA


async def test_get__http_client_vanishes_while_sending__lane_closed_before_the_file(gateway):
    await gateway.store("bucket", "old", DATA)
    gateway.fabric.pauses["send_extents"] = asyncio.Event()
    side = gateway.client(len(DATA))
    offer = await gateway.offered(side, "GET", "/bucket/old")
    ready = asyncio.ensure_future(gateway.ready(side, offer.session))
    await asyncio.sleep(0.01)
    assert gateway.service.stats().sessions[State.MOVING] == 1
    ready.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ready
    await gateway.settled()
    assert not any(side.buffer)


@pytest.mark.parametrize("op", ["GET", "PUT"])
@pytest.mark.parametrize("steps", range(1, 13))
async def test_ready__cancelled_after_any_number_of_steps__nothing_leaks(gateway, op, steps):
    await gateway.store("bucket", "old", DATA)
    side = gateway.client(DATA)
    offer = await gateway.offered(side, op, "/bucket/old")
    ready = asyncio.ensure_future(gateway.ready(side, offer.session))
    for _ in range(steps):
        await asyncio.sleep(0)
    ready.cancel()
    await asyncio.gather(ready, return_exceptions=True)
    await gateway.settled()


@pytest.mark.parametrize("op", ["GET", "PUT"])
@pytest.mark.parametrize("steps", range(6))
async def test_prepare__cancelled_after_any_number_of_steps__nothing_leaks(gateway, op, steps):
    await gateway.store("bucket", "old", DATA)
    perform = gateway.verbs.perform

    async def slow(*args):
        await asyncio.sleep(0)
        return await perform(*args)

    gateway.service._perform = slow
    prepare = asyncio.ensure_future(gateway.prepare(gateway.client(DATA), op, "/bucket/old"))
    for _ in range(steps):
        await asyncio.sleep(0)
    prepare.cancel()
    outcome = (await asyncio.gather(prepare, return_exceptions=True))[0]
    if isinstance(outcome, raw.Answer):  # it was quicker: an offer like any other
        cancel = raw.cancel_headers(raw.Offer.read(outcome.headers).session)
        await gateway.post(raw.CANCEL, cancel)
    await gateway.settled()


@pytest.mark.parametrize("op", ["GET", "PUT"])
async def test_cancel__while_the_data_phase_runs__ready_ends_with_404(gateway, op):
    await gateway.store("bucket", "old", DATA)
    gateway.fabric.pauses["send_extents"] = asyncio.Event()
    side = gateway.client(DATA)
    offer = await gateway.offered(side, op, "/bucket/old")
    ready = asyncio.ensure_future(gateway.ready(side, offer.session))
    await asyncio.sleep(0.01)
    await gateway.post(raw.CANCEL, raw.cancel_headers(offer.session))
    answer = await ready
    assert (answer.status, answer.code) == (404, "NoSuchRDMASession")
    assert "cancelled" in answer.message
    assert await gateway.stored("bucket", "old") == DATA


async def test_cancel__once_all_bytes_are_here__too_late_and_harmless(gateway):
    gate = gateway.fabric.pauses["store"] = asyncio.Event()
    side = gateway.client(DATA)
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    ready = asyncio.ensure_future(gateway.ready(side, offer.session))
    await gateway.write(side, offer)
    await asyncio.sleep(0.01)
    assert gateway.service.stats().sessions[State.COMMITTING] == 1
    assert (await gateway.post(raw.CANCEL, raw.cancel_headers(offer.session))).status == 204
    gate.set()
    assert (await ready).status == 200


async def test_failures__one_session_dies__the_others_go_on(gateway):
    await gateway.store("bucket", "old", DATA)
    doomed, fine = gateway.client(len(DATA)), gateway.client(len(DATA))
    offers = [await gateway.offered(side, "GET", "/bucket/old") for side in (doomed, fine)]
    bad = await gateway.ready(doomed, offers[0].session, memory=(doomed.memory[0], 1))
    good = await gateway.ready(fine, offers[1].session)
    assert (bad.status, good.status) == (500, 200)
    assert fine.buffer == DATA


async def test_stop__with_sessions_in_every_state__all_end_and_new_ones_get_503(gateway):
    await gateway.store("bucket", "old", DATA)
    prepared, moving, committing = (gateway.client(DATA) for _ in range(3))
    await gateway.offered(prepared, "PUT", "/bucket/key")
    waits = await gateway.offered(moving, "PUT", "/bucket/key")
    stores = await gateway.offered(committing, "PUT", "/bucket/new")
    gate = gateway.fabric.pauses["store"] = asyncio.Event()
    readies = [
        asyncio.ensure_future(gateway.ready(moving, waits.session)),
        asyncio.ensure_future(gateway.ready(committing, stores.session)),
    ]
    await gateway.write(committing, stores)
    await asyncio.sleep(0.01)
    stopping = asyncio.ensure_future(gateway.service.stop(5))
    await asyncio.sleep(0.01)
    assert not stopping.done()
    gate.set()
    await stopping
    assert [answer.status for answer in await asyncio.gather(*readies)] == [404, 200]
    assert gateway.fabric.lent == 0
    answer = await gateway.prepare(gateway.client(DATA), "PUT", "/bucket/key")
    assert (answer.status, "shutting down" in answer.message) == (503, True)


async def test_stop__a_lane_that_does_not_come_back__gives_up_at_the_deadline(gateway, caplog):
    side = gateway.client(DATA)
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    gate = asyncio.Event()
    lane = gateway.wire.lanes[offer.qpn]
    close, lane.close = lane.close, gate.wait

    async def tick():
        await asyncio.sleep(0.02)
        gateway.clock.now_s += 10

    await asyncio.gather(gateway.service.stop(0.01), tick())
    assert "did not end" in caplog.text
    gate.set()
    await close()


async def test_close__fails__the_place_is_free_all_the_same(gateway, caplog):
    side = gateway.client(DATA)
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    lane = gateway.wire.lanes[offer.qpn]
    close = lane.close

    async def broken():
        await close()
        raise TransportError("the queue pair did not drain")

    lane.close = broken
    with caplog.at_level(logging.ERROR):
        await gateway.post(raw.CANCEL, raw.cancel_headers(offer.session))
        await gateway.settled()
        await asyncio.sleep(0)
    assert "did not drain" in caplog.text


async def test_ready__peer_of_another_session__can_not_reach_a_finished_lane(gateway):
    side = gateway.client(DATA)
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    ready = asyncio.ensure_future(gateway.ready(side, offer.session))
    await gateway.write(side, offer)
    assert (await ready).status == 200
    await gateway.settled()
    side.lane.connect(QpAddress(offer.qpn, offer.psn, offer.gid, 0))
    with pytest.raises(TransportError):
        await gateway.write(side, offer)
