"""A service upstream that fails: the right error, nothing half stored, no upload left behind."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from hashlib import md5

import pytest
from faulty_s3 import BUCKET, FaultySite, faulty_site

from gateway.config import MIB, UpstreamConfig
from gateway.errors import BusyError, ClientError, GatewayError, InternalError, S3Code
from gateway.storage.port import Destination, ObjectDraft, ObjectInfo, Staged
from gateway.storage.upstream.abilities import Abilities
from gateway.storage.upstream.storage import UpstreamStorage
from gateway.wire.conditional import Conditions

SMALL, LARGE = os.urandom(1000), os.urandom(11 * MIB)
ATTEMPTS = 3
BARE = Abilities(
    versioning=False, object_tagging=False, acl=False, documents=frozenset(), checksums=False
)


@pytest.fixture
async def site() -> AsyncIterator[FaultySite]:
    async with faulty_site() as running:
        yield running


@pytest.fixture
async def storage(
    site: FaultySite, request: pytest.FixtureRequest
) -> AsyncIterator[UpstreamStorage]:
    """In a hurry only where a stall has to be waited for: this host may be slow, too."""
    hurry = {"stall_timeout_s": 0.7, "call_timeout_s": 1.4}
    made = _storage(site.endpoint, **(hurry if "stall" in request.node.name else {}))
    await made.start()
    yield made
    await made.stop()


def _storage(endpoint: str, **settings: float) -> UpstreamStorage:
    given = {"breaker_failures": 100} | settings
    config = UpstreamConfig(
        endpoint=endpoint,
        access_key="access",
        secret_key="secret",
        part_bytes=5 * MIB,
        attempts=ATTEMPTS,
        backoff_s=0.001,
        **given,  # type: ignore[arg-type]
    )
    return UpstreamStorage(
        config, own_id="0" * 64, region="us-east-1", secrets=lambda _: None, abilities=BARE
    )


async def put(storage: UpstreamStorage, data: bytes) -> ObjectInfo:
    """As a verb does it: 1 MiB at a time, the destination known."""
    staged = await storage.stage(BUCKET, len(data), Destination("key"))
    try:
        for place in range(0, len(data), MIB):
            await staged.write(data[place : place + MIB])
        draft = ObjectDraft(len(data), md5(data).hexdigest())
        return await storage.commit_object(staged, BUCKET, "key", draft)
    finally:
        await staged.discard()


async def get(storage: UpstreamStorage) -> bytes:
    reader = await storage.open_object(BUCKET, "key", None)
    try:
        size_bytes = reader.info.size_bytes
        reader.expect(0, size_bytes)  # type: ignore[attr-defined]
        pieces = range(0, size_bytes, MIB)
        return b"".join([await reader.read(at, min(MIB, size_bytes - at)) for at in pieces])
    finally:
        await reader.close()


@pytest.mark.parametrize("data", [SMALL, LARGE])
async def test_put_get__nothing_fails__same_bytes(
    storage: UpstreamStorage, site: FaultySite, data: bytes
) -> None:
    await put(storage, data)
    assert site.objects["key"] == data == await get(storage)
    assert site.uploads == {}


@pytest.mark.parametrize("fault", ["hang up", "500", "503", "stall"])
async def test_put__fails_a_few_times__is_repeated(
    storage: UpstreamStorage, site: FaultySite, fault: str
) -> None:
    for operation in ("PutObject", "UploadPart"):
        site.fail(operation, fault, ATTEMPTS - 1)
    await put(storage, SMALL)
    assert site.objects["key"] == SMALL
    await put(storage, LARGE)
    assert site.objects["key"] == LARGE
    assert site.uploads == {}


async def test_reply__no_xml__the_service_s_fault(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    site.fail("ListBuckets", "no XML")
    with pytest.raises(GatewayError) as caught:
        await storage.check()
    assert caught.value.code.status in (500, 503)


@pytest.mark.parametrize("operation", ["UploadPart", "CompleteMultipartUpload"])
@pytest.mark.parametrize("fault", ["hang up", "500", "503"])
async def test_put__fails_for_good__unavailable_and_no_upload_is_left(
    storage: UpstreamStorage, site: FaultySite, fault: str, operation: str
) -> None:
    site.fail(operation, fault)
    with pytest.raises(GatewayError) as caught:
        await put(storage, LARGE)
    assert caught.value.code.status in (500, 503)
    assert site.uploads == site.objects == {}


async def test_complete__answer_is_lost__is_not_repeated(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    site.fail("CompleteMultipartUpload", "hang up after")
    with pytest.raises(GatewayError):
        await put(storage, LARGE)
    assert site.seen["CompleteMultipartUpload"] == 1


async def test_put__given_up_half_way__no_upload_is_left(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    staged = await storage.stage(BUCKET, None, Destination("key"))
    await staged.write(LARGE)
    await site.asked.wait()
    await staged.discard()
    assert site.uploads == site.objects == {}


async def staged_part(storage: UpstreamStorage, site: FaultySite, length: int | None) -> Staged:
    """A client's own part, longer than the gateway's: all of it came, nobody committed it."""
    site.uploads["u"] = {}
    staged = await storage.stage(BUCKET, length, Destination("key", upload_id="u", number=7))
    for place in range(0, len(LARGE), MIB):
        await staged.write(LARGE[place : place + MIB])
    return staged


async def test_part__long__is_sent_while_it_comes_and_whole_with_the_commit(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    staged = await staged_part(storage, site, len(LARGE))
    await site.asked.wait()
    assert site.uploads["u"] == {}
    draft = ObjectDraft(len(LARGE), md5(LARGE).hexdigest())
    part = await storage.commit_part(staged, BUCKET, "key", "u", 7, draft)
    assert (part.number, part.size_bytes, part.etag) == (7, len(LARGE), draft.etag)
    assert site.uploads["u"] == {7: LARGE}


async def test_part__long_and_turns_out_wrong__the_service_keeps_nothing(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    staged = await staged_part(storage, site, len(LARGE))
    await site.asked.wait()
    await staged.discard()
    assert site.uploads["u"] == {}


async def test_part__shorter_than_announced__refused(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    staged = await staged_part(storage, site, len(LARGE) + 1)
    draft = ObjectDraft(len(LARGE), md5(LARGE).hexdigest())
    with pytest.raises(InternalError):
        await storage.commit_part(staged, BUCKET, "key", "u", 7, draft)
    assert site.uploads["u"] == {}


async def test_part__kept_otherwise_than_sent__is_no_success(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    staged = await staged_part(storage, site, len(LARGE))
    draft = ObjectDraft(len(LARGE), md5(b"what it should be").hexdigest())
    with pytest.raises(InternalError) as caught:
        await storage.commit_part(staged, BUCKET, "key", "u", 7, draft)
    assert "other bytes" in caught.value.cause


async def test_part__long_and_of_unknown_length__asks_for_the_length(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    with pytest.raises(ClientError) as caught:
        await staged_part(storage, site, None)
    assert caught.value.code is S3Code.MISSING_CONTENT_LENGTH


async def test_stage__nothing_is_left_to_lend__busy_and_given_back(
    site: FaultySite,
) -> None:
    storage = _storage(site.endpoint, buffer_bytes=32 * MIB)
    staged = await storage.stage(BUCKET, None, Destination("key"))
    with pytest.raises(BusyError, match="buffer_bytes"):
        await storage.stage(BUCKET, None, Destination("key"))
    await staged.discard()
    await (await storage.stage(BUCKET, None, Destination("key"))).discard()
    await storage.stop()


@pytest.mark.parametrize("fault", ["cut", "short", "stall in body", "hang up", "500", "503"])
async def test_get__breaks_off_once__goes_on_where_it_broke(
    storage: UpstreamStorage, site: FaultySite, fault: str
) -> None:
    site.objects["key"] = LARGE
    site.fail("GetObject", fault, 1)
    if fault == "short":
        with pytest.raises(InternalError):
            await get(storage)
        return
    assert await get(storage) == LARGE


@pytest.mark.parametrize("fault", ["hang up", "500"])
async def test_get__breaks_for_good__unavailable(
    storage: UpstreamStorage, site: FaultySite, fault: str
) -> None:
    site.objects["key"] = LARGE
    site.fail("GetObject", fault)
    with pytest.raises(GatewayError) as caught:
        await get(storage)
    assert caught.value.code.status in (500, 503)
    segments, by_aiohttp = 3, 2  # which asks once more by itself where a connection was used before
    assert site.seen["GetObject"] <= ATTEMPTS * segments * by_aiohttp


async def test_get__of_another_object__never_wrong_bytes(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    site.objects["key"] = LARGE
    site.fail("GetObject", "wrong etag")
    with pytest.raises(InternalError) as caught:
        await get(storage)
    assert "ETag" in caught.value.cause


async def test_error__unknown_code__passes_through(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    site.objects["key"] = SMALL
    site.fail("GetObject", "unknown error")
    with pytest.raises(GatewayError) as caught:
        await get(storage)
    code = caught.value.code
    assert (code.code, code.status, caught.value.message) == ("XTeapot", 418, "on demand")
    assert caught.value.details == {"Extra": "x"}


async def test_error__own_key_refused__operator_hears_not_the_client(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    site.fail("PutObject", "bad key")
    with pytest.raises(InternalError) as caught:
        await put(storage, SMALL)
    assert "upstream.secret_key" in caught.value.cause


async def test_nobody_listens__service_unavailable_then_refused_at_once(
    unused_tcp_port: int,
) -> None:
    storage = _storage(f"http://127.0.0.1:{unused_tcp_port}", breaker_failures=ATTEMPTS)
    for _ in range(2):
        with pytest.raises(GatewayError) as caught:
            await storage.head_bucket(BUCKET)
        assert caught.value.code is S3Code.SERVICE_UNAVAILABLE
        assert int(caught.value.headers["Retry-After"]) >= 1
    await storage.stop()


async def test_slow_down__for_good__slow_down(storage: UpstreamStorage, site: FaultySite) -> None:
    site.fail("PutObject", "503")
    with pytest.raises(BusyError):
        await put(storage, SMALL)
    assert site.seen["PutObject"] == ATTEMPTS


async def test_conditions__service_judges_none__refused_before_a_byte_is_sent(
    storage: UpstreamStorage, site: FaultySite
) -> None:
    wanted = Destination("key", conditions=Conditions(if_none_match=("*",)))
    with pytest.raises(ClientError) as caught:
        await storage.stage(BUCKET, 10, wanted)
    assert caught.value.code is S3Code.NOT_IMPLEMENTED
    assert site.seen["PutObject"] == 0
