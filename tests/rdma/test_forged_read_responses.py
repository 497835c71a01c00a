"""READs that a device calls done although their data never came, or not all of it.

Where that goes unnoticed, what the slot held before is stored as the client's: another client's
bytes. Linux's Soft-RoCE lets it happen (drivers/infiniband/sw/rxe/rxe_comp.c): its completer
ends a READ whose response is out of turn with a status that nobody has set, which is success, and
takes an ACK, or the last packet once more, for a READ's end.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from boto3_client import boto3_client
from forger import MARK_BYTES, Forger
from gateway_process import GatewayProcess, gateway_process
from raw_hipobj import Answer
from rc_client import Address, Desk, Memory, address_in, connect
from rc_fabrics import RcFabric, devices
from roce_packets import ACK, MTU_BYTES, READ_FIRST, READ_LAST, READ_MIDDLE, READ_ONLY

pytestmark = [
    pytest.mark.rdma,
    pytest.mark.skipif("RDMA_VM_ADDRS" not in os.environ, reason="forges on the rig's wire only"),
]

BUCKET = "forged"
DEVICE = RcFabric("verbs")
SLOT_BYTES = 16 * 1024
STAGING_BYTES = 4 * SLOT_BYTES
FLAGS = (
    *("--rdma-slot-bytes", str(SLOT_BYTES)),
    *("--rdma-connection-staging-bytes", str(STAGING_BYTES)),
    *("--rdma-lanes", "1x1MiB", "--store-durability", "none"),
)
SECRET = random.Random(0).randbytes(STAGING_BYTES)  # as long as all that there is of staging
FULL = b"F" * MTU_BYTES
NOWHERE = 0x1000


@dataclass(frozen=True)
class Forgery:
    """Answers to a PUT's READ.

    Attributes:
        packets: opcode, number among the READ's packets, payload.
    """

    length_bytes: int
    packets: Sequence[tuple[int, int, bytes]]


HOLLOW = {
    "middle-first": Forgery(SLOT_BYTES, [(READ_MIDDLE, 0, FULL)]),
    "last-first": Forgery(SLOT_BYTES, [(READ_LAST, 0, FULL)]),
    "only-after-first": Forgery(SLOT_BYTES, [(READ_FIRST, 0, FULL), (READ_ONLY, 1, FULL)]),
    "ack": Forgery(MTU_BYTES, [(ACK, 0, b"")]),
    "short-last-twice": Forgery(
        2 * MTU_BYTES, [(READ_FIRST, 0, FULL), *[(READ_LAST, 1, FULL[:4])] * 2]
    ),
    "empty-only-twice": Forgery(MARK_BYTES, [(READ_ONLY, 0, b"")] * 2),
}
SHORTER_THAN_A_MARK = Forgery(MARK_BYTES - 1, [(ACK, 0, b"")])
WITHOUT_ITS_LAST_WORD = Forgery(MTU_BYTES, [(READ_ONLY, 0, FULL[:-4])] * 2)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path_factory.mktemp("forged"), *DEVICE.flags, *FLAGS) as process:
        yield process


@pytest.fixture(scope="module")
def s3(gateway: GatewayProcess) -> Iterator[Any]:
    with closing(boto3_client(gateway)) as client:
        client.create_bucket(Bucket=BUCKET)
        yield client


async def put_answered_by(forgery: Forgery, desk: Desk, key: str) -> Answer:
    """A PUT of a client whose own queue pair stays silent: it is never brought past INIT."""
    from pyverbs_rc import Endpoint, PyverbsClient  # only where there is a device

    gid_index = int(os.environ["RDMA_VM_GID_INDEX"])
    with Endpoint(devices()[-1], gid_index, 1, readable=True) as silent:
        welcome = await connect(desk, Address(silent.qpn, silent.psn, silent.gid))
        client, remote = PyverbsClient(desk, welcome, silent), address_in(welcome)
        token = client.token(Memory(NOWHERE, 1, forgery.length_bytes))
        with closing(Forger(remote.gid)) as forger:
            asking = asyncio.create_task(client.ask("PUT", f"/{BUCKET}/{key}", token))
            request = await asyncio.to_thread(forger.asked, remote.psn)
            assert request.length_bytes == forgery.length_bytes
            forger.send(
                forger.wire.packet(opcode, remote.qpn, remote.psn + number, payload)
                for opcode, number, payload in forgery.packets
            )
            return await asking


def stored(s3: Any, key: str) -> bytes | None:
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())]
    return s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() if key in keys else None


async def fill_every_slot(desk: Desk) -> None:
    """Another client's object, through all the staging there is, there and back."""
    target = bytearray(STAGING_BYTES)
    async with DEVICE.client_at(desk) as victim:
        for answer in (
            await victim.put(f"/{BUCKET}/secret", SECRET),
            await victim.get(f"/{BUCKET}/secret", target),
        ):
            assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (200, "200"), answer
    assert target == SECRET


@pytest.mark.parametrize("name", HOLLOW)
async def test_put__read_done_without_its_data__fails_and_stores_nothing(
    gateway: GatewayProcess, s3: Any, name: str
) -> None:
    desk = Desk.of(gateway)
    await fill_every_slot(desk)
    answer = await put_answered_by(HOLLOW[name], desk, name)
    assert stored(s3, name) is None
    assert answer.status >= 500, answer
    assert b"had not placed" in answer.body


async def test_put__read_too_short_for_a_mark_done_without_its_data__has_none_of_others(
    gateway: GatewayProcess, s3: Any
) -> None:
    desk = Desk.of(gateway)
    await fill_every_slot(desk)
    await put_answered_by(SHORTER_THAN_A_MARK, desk, "zeros")
    assert stored(s3, "zeros") in (None, bytes(SHORTER_THAN_A_MARK.length_bytes))


async def test_put__read_done_without_its_last_word__has_none_of_others(
    gateway: GatewayProcess, s3: Any
) -> None:
    desk = Desk.of(gateway)
    await fill_every_slot(desk)
    await put_answered_by(WITHOUT_ITS_LAST_WORD, desk, "noise")
    body = stored(s3, "noise") or FULL
    assert body[:-4] == FULL[:-4]
    ends = range(MTU_BYTES, STAGING_BYTES, SLOT_BYTES)
    assert body[-4:] not in [SECRET[end - 4 : end] for end in ends]
