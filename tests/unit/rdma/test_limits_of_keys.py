"""What one access key may hold of RDMA, and that each refusal names its limit for the metrics."""

from __future__ import annotations

from dataclasses import replace

import raw_hipobj as raw
from loopback_gateway import CONFIG, OTHER_KEY, SHORT, LoopbackGateway

from gateway.telemetry import Trail, begin


async def prepared(gateway: LoopbackGateway, **changes: object) -> tuple[raw.Answer, Trail]:
    """The answer to a PREPARE for a PUT, and what its trail knows."""
    trail = begin(Trail())
    side = gateway.client(b"x" * SHORT)
    return await gateway.prepare(side, "PUT", "/bucket/key", **changes), trail


async def test_prepare__staging_of_a_key_is_used_up__is_503_for_that_key_alone() -> None:
    gateway = LoopbackGateway()
    await gateway.store("bucket", "other", b"")
    gateway.service.limit_staging(SHORT)
    first, _ = await prepared(gateway)
    second, trail = await prepared(gateway)
    assert (first.status, second.status, second.code) == (200, 503, "SlowDown")
    assert second.headers["retry-after"] == "1"
    assert trail.limit == "limits.staging_bytes"
    other, _ = await prepared(gateway, key=OTHER_KEY)
    assert other.status != 503
    session = raw.Offer.read(first.headers).session
    assert (await gateway.post(raw.CANCEL, raw.cancel_headers(session))).status == 204
    gateway.service.limit_staging(0)
    third, trail = await prepared(gateway)
    assert (third.status, trail.limit) == (200, "")


async def test_prepare__sessions_of_a_key_are_used_up__names_the_limit() -> None:
    gateway = LoopbackGateway(config=replace(CONFIG, max_sessions_per_key=1))
    await gateway.store("bucket", "other", b"")
    assert (await prepared(gateway))[0].status == 200
    answer, trail = await prepared(gateway)
    assert (answer.status, trail.limit) == (503, "rdma.max_sessions_per_key")


async def test_live__sessions__are_shown_without_what_opens_them() -> None:
    gateway = LoopbackGateway()
    await gateway.store("bucket", "other", b"")
    answer, trail = await prepared(gateway)
    (one,) = gateway.rdma.live()
    session = raw.Offer.read(answer.headers).session
    assert (one.id, one.state, one.what) == (session[:8], "prepared", "PUT bucket/key")
    assert (one.kind, one.owner, one.size_bytes) == ("session", "AKALICE", SHORT)
    assert trail.session == one.id
