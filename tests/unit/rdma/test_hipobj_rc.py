"""hipobj-rc-v2 as PROTOCOL section 2 tells it, through the whole path: every status but failures
of the wire, which test_hipobj_failures forces."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import random
import re

import pytest
import raw_hipobj as raw
from awscrt import checksums as crt
from loopback_gateway import CONFIG, KEY, LONG, OTHER_KEY, SHORT, LoopbackGateway

from gateway.dataplane.port import LinkLayer
from gateway.rdma.sessions import State
from gateway.storage.port import ObjectAttributes

DATA = random.Random(1).randbytes(100_000)


def etag_of(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def crc64(data: bytes) -> str:
    return base64.b64encode(crt.crc64nvme(data).to_bytes(8, "big")).decode()


@pytest.mark.parametrize("size", [1, 4095, 4096, 100_000, LONG])
async def test_put__announced_bytes__stored_and_described(gateway, size):
    data = random.Random(size).randbytes(size)
    answer = await gateway.put("/bucket/key", data)
    assert answer.status == 200
    assert await gateway.stored("bucket", "key") == data
    headers = dict(answer.headers)
    assert headers["content-length"] == "0"
    assert headers["x-amz-rdma-protocol"] == "hipobj-rc-v2"
    assert headers["x-amz-rdma-cookie"] == "00c0ffee"
    assert headers["x-amz-rdma-bytes-transferred"] == str(size)
    assert headers["x-amz-rdma-etag"] == etag_of(data)
    assert headers["x-amz-rdma-checksum"] == f"CRC64NVME {crc64(data)}"


@pytest.mark.parametrize(("offset", "size"), [(None, 100_000), (0, 1), (99_999, 1), (1234, 50_000)])
async def test_get__extent_inside__arrives_exactly(gateway, offset, size):
    await gateway.put("/bucket/a%20key%2F%3F", DATA)
    answer, received = await gateway.get("/bucket/a%20key%2F%3F", size, offset=offset)
    start = offset or 0
    assert answer.status == 200
    assert received == DATA[start : start + size]
    assert answer.headers["x-amz-rdma-bytes-transferred"] == str(size)
    assert answer.headers["x-amz-rdma-etag"] == etag_of(DATA)
    whole = f"CRC64NVME {crc64(DATA)}" if size == len(DATA) else None
    assert answer.headers.get("x-amz-rdma-checksum") == whole


async def test_put__attributes_beside_the_target__belong_to_the_object(gateway):
    extra = {"content-type": "text/x-test", "x-amz-meta-colour": "blue", "x-amz-tagging": "a=1"}
    await gateway.put("/bucket/key", b"data", extra=extra)
    info = await gateway.storage.head_object("bucket", "key", None)
    assert info.attributes.headers["content-type"] == "text/x-test"
    assert info.attributes.metadata == {"colour": "blue"}
    assert info.attributes.tags == (("a", "1"),)


@pytest.mark.parametrize("query", ["partNumber=2&uploadId={}", "uploadId={}&partNumber=2"])
async def test_put__part_of_an_upload__stored_as_that_part(gateway, query):
    upload = await gateway.storage.create_upload("bucket", "key", ObjectAttributes(), None, None)
    target = "/bucket/key?" + query.format(upload.upload_id)
    answer = await gateway.put(target, DATA)
    assert answer.headers["x-amz-rdma-etag"] == etag_of(DATA)
    parts, more = await gateway.storage.list_parts("bucket", "key", upload.upload_id, 0, 10)
    assert [(part.number, part.size_bytes) for part in parts] == [(2, len(DATA))]
    assert not more


async def test_prepare__put__offers_writable_staging_and_get_none(gateway):
    await gateway.store("bucket", "key", DATA)
    put = raw.Offer.read(
        (await gateway.prepare(gateway.client(b"x"), "PUT", "/bucket/new")).headers
    )
    get = raw.Offer.read((await gateway.prepare(gateway.client(9), "GET", "/bucket/key")).headers)
    assert put.mr_addr
    assert put.mr_rkey
    assert (get.mr_addr, get.mr_rkey) == (0, 0)
    for offer in (put, get):
        assert re.fullmatch(r"[0-9a-f]{32}", offer.session)
        assert 1 <= offer.psn < 2**24
    assert gateway.fabric.calls["post_receive"] == 1  # the PUT's, before the reply


async def test_get__receive_posted_after_ready__still_arrives(gateway):
    await gateway.store("bucket", "key", DATA)
    side = gateway.client(len(DATA))
    answer = await gateway.prepare(side, "GET", "/bucket/key")
    offer = raw.Offer.read(answer.headers)
    side.lane.connect(gateway.wire.lanes[offer.qpn].local)
    ready = asyncio.ensure_future(gateway.ready(side, offer.session))
    await asyncio.sleep(0.01)
    assert not ready.done()
    side.lane.post_receive()
    assert (await ready).status == 200
    assert await side.lane.received(0xC0FFEE, len(DATA), 1) == len(DATA)


async def test_prepare__loopback_token__peer_is_on_our_gid_and_ready_says_its_qpn(gateway):
    side = gateway.client(b"loopback")
    answer = await gateway.prepare(side, "PUT", "/bucket/key", token="0" * 88)
    offer = raw.Offer.read(answer.headers)
    side.lane.connect(gateway.wire.lanes[offer.qpn].local)
    ready = asyncio.ensure_future(gateway.ready(side, offer.session))
    await gateway.write(side, offer)
    assert (await ready).status == 200


async def test_transfers__logged_once_without_secrets(gateway, caplog):
    with caplog.at_level(logging.DEBUG, "gateway"):
        await gateway.put("/bucket/a%20key", DATA)
        await gateway.get("/bucket/a%20key", 1000)
    told = [record for record in caplog.records if record.name.startswith("gateway")]
    lines = [record.getMessage() for record in told if record.levelno == logging.INFO]
    shape = (
        r"rdma {} bucket/a%20key {} bytes [0-9.]+ s [0-9.]+ GB/s carrier=loopback "
        r"session=[0-9a-f]{{8}}"
    )
    assert [
        bool(re.fullmatch(shape.format(*want), line))
        for want, line in zip([("PUT", 100_000), ("GET", 1000)], lines, strict=True)
    ] == [True, True]
    rkeys = {f"{lane.buffer.rkey:x}" for lane in gateway.wire.lanes.values()}
    assert not any(rkey in record.getMessage() for rkey in rkeys for record in told)


async def test_stats__after_transfers__count_bytes_each_way(gateway):
    await gateway.put("/bucket/key", DATA)
    await gateway.get("/bucket/key", 1000)
    stats = gateway.service.stats()
    assert (stats.transfers, stats.failures) == (2, 0)
    assert (stats.received_bytes, stats.sent_bytes) == (len(DATA), 1000)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("token", "01" * 43),
        ("token", "02" + "0" * 86),
        ("psn", "000000"),
        ("psn", "1000000"),
        ("cookie", "00000000"),
        ("cookie", "c0ffee"),
        ("op", "DELETE"),
        ("target", "bucket/key"),
        ("target", "/bucket"),
        ("target", "/bucket/key%"),
        ("target", "/bucket/key?uploadId=1"),
        ("target", "/bucket/key?acl"),
        ("size", "0"),
        ("size", "2147483648"),
        ("size", "+1"),
        ("offset", "-1"),
        ("offset", "5"),
    ],
)
async def test_prepare__bad_header__400_names_it_and_nothing_is_lent(gateway, header, value):
    side = gateway.client(b"x")
    extra = {f"x-amz-rdma-{header}": value}
    answer = await gateway.prepare(side, "PUT", "/bucket/key", extra=extra)
    assert answer.status == 400
    assert answer.code in ("InvalidArgument", "InvalidRDMAToken")
    assert f"x-amz-rdma-{header}" in answer.message
    assert gateway.fabric.calls["lease"] == 0


@pytest.mark.parametrize("name", ["token", "psn", "cookie", "op", "target", "size"])
async def test_prepare__missing_header__400_names_it(gateway, name):
    side = gateway.client(b"x")
    headers = raw.prepare_headers(token=side.token, psn=1, op="PUT", target="/bucket/key", size=1)
    del headers[f"x-amz-rdma-{name}"]
    answer = await gateway.post(raw.PREPARE, headers)
    assert (answer.status, f"x-amz-rdma-{name}" in answer.message) == (400, True)


async def test_prepare__header_not_signed__400_names_it(gateway):
    side = gateway.client(b"x")
    headers = raw.prepare_headers(
        token=side.token, psn=1, op="PUT", target="/bucket/key", size=1, offset=0
    )
    answer = await gateway.post(raw.PREPARE, headers, unsigned=["x-amz-rdma-offset"])
    assert (answer.status, "x-amz-rdma-offset" in answer.message) == (400, True)


async def test_prepare__copy_source__400(gateway):
    side = gateway.client(b"x")
    extra = {"x-amz-copy-source": "/bucket/other"}
    answer = await gateway.prepare(side, "PUT", "/bucket/key", extra=extra)
    assert (answer.status, answer.code) == (400, "InvalidRequest")
    assert "CopyObject" in answer.message


async def test_prepare__lid_0_on_infiniband__400_says_why():
    gateway = LoopbackGateway(link_layer=LinkLayer.INFINIBAND)
    answer = await gateway.prepare(gateway.client(b"x"), "PUT", "/bucket/key")
    assert (answer.status, answer.code) == (400, "InvalidRDMAToken")
    assert "LID" in answer.message


@pytest.mark.parametrize("path", [raw.PREPARE, raw.READY, raw.CANCEL])
@pytest.mark.parametrize(
    "headers", [{}, {"x-amz-rdma-protocol": "hipobj-rc-v1"}, {"x-amz-rdma-protocol": ""}]
)
async def test_any__without_the_protocol__501_unsupported(gateway, path, headers):
    answer = await gateway.post(path, headers)
    assert (answer.status, answer.code) == (501, "RDMANotSupported")
    assert answer.headers["x-amz-rdma-protocol-status"] == "unsupported"


@pytest.mark.parametrize("path", [raw.PREPARE, raw.READY, raw.CANCEL])
async def test_any__rdma_off__501_unsupported(path):
    gateway = LoopbackGateway(rdma_off=True)
    answer = await gateway.post(path, raw.PROTOCOL)
    assert answer.status == 501
    assert answer.headers["x-amz-rdma-protocol-status"] == "unsupported"


async def test_prepare__device_gone__501_and_cancel_still_works(gateway):
    side = gateway.client(b"x")
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    gateway.fabric.healthy = False
    answer = await gateway.prepare(gateway.client(b"x"), "PUT", "/bucket/key")
    assert answer.headers["x-amz-rdma-protocol-status"] == "unsupported"
    assert (await gateway.post(raw.CANCEL, raw.cancel_headers(offer.session))).status == 204
    await gateway.settled()


async def test_prepare__dc_transport__501_unsupported(gateway):
    side = gateway.client(b"x")
    token = raw.rc_token(5, side.lane.local.gid, transport=0)
    answer = await gateway.prepare(side, "PUT", "/bucket/key", token=token)
    assert answer.headers["x-amz-rdma-protocol-status"] == "unsupported"
    assert answer.status == 501


@pytest.mark.parametrize("path", [raw.PREPARE, raw.READY, raw.CANCEL])
async def test_any__anonymous__403(gateway, path):
    answer = await gateway.post(path, raw.PROTOCOL, key=None)
    assert (answer.status, answer.code) == (403, "AccessDenied")


async def test_any__wrong_secret__403(gateway):
    answer = await gateway.post(raw.READY, raw.PROTOCOL, key=("AKALICE", "guess"))
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")


async def test_any__not_a_post__405(gateway):
    answer = await gateway.post(raw.READY, raw.PROTOCOL, method="GET")
    assert answer.status == 405


@pytest.mark.parametrize(
    ("op", "target", "code"),
    [
        ("GET", "/bucket/missing", "NoSuchKey"),
        ("GET", "/missing/key", "NoSuchBucket"),
        ("PUT", "/missing/key", "NoSuchBucket"),
        ("PUT", "/bucket/key?partNumber=1&uploadId=missing", "NoSuchUpload"),
        ("GET", "/bucket/key?versionId=missing", "NoSuchVersion"),
    ],
)
async def test_prepare__nothing_there__404_before_anything_is_lent(gateway, op, target, code):
    await gateway.store("bucket", "key", DATA)
    answer = await gateway.prepare(gateway.client(b"x"), op, target)
    assert (answer.status, answer.code) == (404, code)
    assert gateway.fabric.calls["lease"] == 0


async def test_session__unknown_other_keys_and_expired__one_404_for_all(gateway):
    side = gateway.client(b"x")
    first = await gateway.offered(side, "PUT", "/bucket/key")
    answers = [
        await gateway.ready(side, "f" * 32),
        await gateway.ready(side, first.session, key=OTHER_KEY),
    ]
    gateway.clock.now_s += CONFIG.prepare_timeout_s
    answers.append(await gateway.ready(side, first.session))
    assert {(a.status, a.code, a.message) for a in answers} == {
        (404, "NoSuchRDMASession", answers[0].message)
    }


async def test_ready__second_while_the_first_runs__409(gateway):
    side = gateway.client(b"data")
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    first = asyncio.ensure_future(gateway.ready(side, offer.session))
    await asyncio.sleep(0.01)
    second = await gateway.ready(side, offer.session)
    assert (second.status, second.code) == (409, "RDMASessionClaimed")
    await gateway.write(side, offer)
    assert (await first).status == 200
    assert (await gateway.ready(side, offer.session)).status == 404  # used once


@pytest.mark.parametrize(
    ("extra", "status"),
    [({"if-match": '"other"'}, 412), ({"if-none-match": f'"{"e" * 32}"'}, 304)],
)
async def test_prepare__get_precondition__answered_at_once(gateway, extra, status):
    await gateway.store("bucket", "key", DATA)
    answer = await gateway.prepare(gateway.client(10), "GET", "/bucket/key", extra=extra)
    assert answer.status == status
    assert gateway.fabric.calls["lease"] == 0


async def test_put__if_none_match_on_an_existing_key__412_and_untouched(gateway):
    await gateway.store("bucket", "key", b"old")
    answer = await gateway.put("/bucket/key", b"new", extra={"if-none-match": "*"})
    assert (answer.status, answer.code) == (412, "PreconditionFailed")
    assert await gateway.stored("bucket", "key") == b"old"


async def test_prepare__put_longer_than_any_lane__413_names_the_limit(gateway):
    answer = await gateway.prepare(gateway.client(b"x"), "PUT", "/bucket/key", size=LONG + 1)
    assert (answer.status, answer.code) == (413, "EntityTooLarge")
    assert str(LONG) in answer.body.decode()
    await gateway.store("bucket", "long", bytes(LONG + 1))
    assert (await gateway.get("/bucket/long", LONG + 1))[0].status == 200  # a ring carries it


@pytest.mark.parametrize(("offset", "size"), [(0, 100_001), (100_000, 1), (2**62, 1)])
async def test_prepare__beyond_the_objects_end__416(gateway, offset, size):
    await gateway.store("bucket", "key", DATA)
    answer = await gateway.prepare(
        gateway.client(1), "GET", "/bucket/key", offset=offset, size=size
    )
    assert (answer.status, answer.code) == (416, "InvalidRange")
    assert gateway.fabric.calls["lease"] == 0


async def test_ready__object_shrank_since_prepare__416_and_nothing_sent(gateway):
    await gateway.store("bucket", "key", DATA)
    side = gateway.client(len(DATA))
    offer = await gateway.offered(side, "GET", "/bucket/key")
    await gateway.store("bucket", "key", b"short")
    answer = await gateway.ready(side, offer.session)
    assert (answer.status, answer.code) == (416, "InvalidRange")
    assert not any(side.buffer)


async def test_prepare__one_keys_sessions_used_up__503_and_others_go_on(gateway):
    sides = [gateway.client(b"x") for _ in range(5)]
    answers = [await gateway.prepare(side, "PUT", "/bucket/key") for side in sides]
    assert [answer.status for answer in answers] == [200] * 4 + [503]
    assert (answers[4].code, answers[4].headers["retry-after"]) == ("SlowDown", "1")
    assert "rdma.max_sessions_per_key" in answers[4].message
    await gateway.post(raw.CANCEL, raw.cancel_headers(raw.Offer.read(answers[0].headers).session))
    other = await gateway.prepare(sides[4], "PUT", "/bucket/key", key=OTHER_KEY)
    assert other.status == 200


async def test_prepare__staging_exhausted__503_and_free_again_after_cancel(gateway):
    side = gateway.client(b"x")
    offers = [
        (await gateway.prepare(side, "PUT", "/bucket/key", size=SHORT + 1)).headers
        for _ in range(2)
    ]
    busy = await gateway.prepare(side, "PUT", "/bucket/key", size=SHORT + 1)
    assert (busy.status, busy.code) == (503, "SlowDown")
    assert gateway.service.stats().sessions[State.PREPARED] == 2
    session = raw.Offer.read(offers[0]).session
    await gateway.post(raw.CANCEL, raw.cancel_headers(session))
    await asyncio.sleep(0.01)
    assert (await gateway.prepare(side, "PUT", "/bucket/key", size=SHORT + 1)).status == 200


async def test_cancel__again_unknown_or_another_keys__204_without_effect(gateway):
    side = gateway.client(b"x")
    offer = await gateway.offered(side, "PUT", "/bucket/key")
    cancel = raw.cancel_headers(offer.session)
    assert (await gateway.post(raw.CANCEL, cancel, OTHER_KEY)).status == 204
    assert gateway.service.stats().sessions[State.PREPARED] == 1
    for _ in range(2):
        answer = await gateway.post(raw.CANCEL, cancel)
        assert (answer.status, answer.headers["x-amz-rdma-protocol"]) == (204, "hipobj-rc-v2")
    assert (await gateway.post(raw.CANCEL, raw.cancel_headers("f" * 32))).status == 204
    await gateway.settled()


@pytest.mark.parametrize(
    ("changes", "header"),
    [
        ({"qpn": 0x777}, "x-amz-rdma-qpn"),
        ({"cookie": 1}, "x-amz-rdma-cookie"),
        ({"memory": None}, "x-amz-rdma-mr-addr"),
        ({"memory": (0, 0)}, "x-amz-rdma-mr-addr"),
        ({"memory": (2**64 - 1, 1)}, "x-amz-rdma-mr-addr"),
    ],
)
async def test_ready__disagrees_with_prepare__400_names_it_and_nothing_is_sent(
    gateway, changes, header
):
    await gateway.store("bucket", "key", DATA)
    side = gateway.client(10)
    offer = await gateway.offered(side, "GET", "/bucket/key")
    answer = await gateway.ready(side, offer.session, **changes)
    assert (answer.status, answer.code) == (400, "InvalidArgument")
    assert header in answer.message
    assert not any(side.buffer)


@pytest.mark.parametrize("op", ["GET", "PUT"])
async def test_prepare__lane_of_the_arena__belongs_to_who_asked_before_it_is_shown(gateway, op):
    await gateway.put("/bucket/key", DATA)
    side = gateway.client(len(DATA))
    offer = await gateway.offered(side, op, "/bucket/key")
    assert gateway.wire.lanes[offer.qpn].owner == KEY[0]
    await gateway.post(raw.CANCEL, raw.cancel_headers(offer.session))
