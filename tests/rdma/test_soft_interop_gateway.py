"""The whole of hipobj-rc-v2 between the kernel's Soft-RoCE and the soft fabric, in both roles.

The gateway is a process in one network namespace, the client works in the other; HTTP and RoCE
packets cross the same wire.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

import pytest
from boto3_client import boto3_client
from botocore.credentials import Credentials
from gateway_process import GatewayProcess, gateway_process
from pyverbs_peer import PyverbsPeer
from soft_namespace import DEVICE, KERNEL, SOFT, SOFT_TOO, in_namespace, set_path_mtu

from gateway.client import Client, TransferPath
from gateway.config import KIB, MIB
from gateway.config.client import ClientLimits

pytestmark = [
    pytest.mark.rdma,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("joined_namespaces"),
]

BUCKET = "bucket"
SIZES = (1, 4 * KIB, MIB + 1, 16 * MIB)
LANES = "2x1MiB,1x16MiB"
LIMITS = ClientLimits(part_bytes=16 * MIB, transfer_timeout_s=60.0)


@dataclass(frozen=True)
class Side:
    """One end of the wire: where its sockets live, and what names its fabric.

    Attributes:
        flags: of `s3rdma serve`.
        device: as a client names it.
    """

    address: str
    flags: tuple[str, ...]
    device: str

    def enter(self) -> AbstractContextManager[None]:
        return in_namespace() if self.address == SOFT else nullcontext()


KERNEL_SIDE = Side(KERNEL, ("--rdma-fabric", "verbs", "--rdma-device", DEVICE), DEVICE)
SOFT_SIDE = Side(SOFT, ("--rdma-fabric", "soft", "--rdma-soft-address", SOFT), f"soft:{SOFT_TOO}")


@pytest.fixture(scope="module", params=[1024, 4096])
def mtu_bytes(request: pytest.FixtureRequest, joined_namespaces: None) -> int:
    found: int = request.param
    set_path_mtu(found)
    return found


@pytest.fixture(scope="module")
def gateways(
    mtu_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Side, GatewayProcess]]:
    """One on each side, started at the same time: most of a test's time goes there."""
    sides = (KERNEL_SIDE, SOFT_SIDE)
    with ExitStack() as stack, ThreadPoolExecutor() as threads:

        def start(side: Side) -> GatewayProcess:
            with side.enter():
                return stack.enter_context(serving(side, tmp_path_factory.mktemp("gateway")))

        yield dict(zip(sides, threads.map(start, sides), strict=True))


def serving(side: Side, directory: Path) -> AbstractContextManager[GatewayProcess]:
    flags = ("--listen", f"{side.address}:0", "--rdma-lanes", LANES, *side.flags)
    patience = ("--rdma-prepare-timeout-s", "60", "--rdma-transfer-timeout-s", "60")  # slow guests
    return gateway_process(directory, *flags, *patience, "--log-level", "debug")


@pytest.mark.parametrize(
    ("server", "side"),
    [(KERNEL_SIDE, SOFT_SIDE), (SOFT_SIDE, KERNEL_SIDE)],
    ids=["kernel-gateway", "soft-gateway"],
)
async def test_put_and_get__kernel_and_soft__bytes_are_identical(
    gateways: dict[Side, GatewayProcess], server: Side, side: Side, mtu_bytes: int
) -> None:
    served = gateways[server]
    with side.enter():
        async with Client(
            endpoint_url=served.endpoint,
            region_name="us-east-1",
            credentials=Credentials(served.access_key, served.secret_key),
            rdma="require",
            device=side.device,
            limits=LIMITS,
        ) as client:
            await client.create_bucket(BUCKET)
            for size in SIZES:
                await round_trip(client, size)
    assert served.log_lines(f"path MTU {mtu_bytes} of the port's {mtu_bytes}")


def test_put_and_get__soft_gateway_and_pyverbs__bytes_are_identical(
    gateways: dict[Side, GatewayProcess],
) -> None:
    """A peer that shares no line with us, on the kernel's device."""
    served = gateways[SOFT_SIDE]
    keys = (served.access_key, served.secret_key)
    peer = PyverbsPeer(served.address, *keys, DEVICE, gid_index_of(DEVICE, KERNEL))
    with closing(boto3_client(served)) as s3:
        s3.create_bucket(Bucket="pyverbs")
        for size in SIZES:
            data = random.Random(size).randbytes(size)
            peer.put(f"/pyverbs/size-{size}", data)
            assert s3.get_object(Bucket="pyverbs", Key=f"size-{size}")["Body"].read() == data
            assert peer.get(f"/pyverbs/size-{size}", size).data == data


def gid_index_of(device: str, address: str) -> int:
    """Where the device's table has the IPv4 address, mapped; as RoCE v2 and not as v1."""
    port = Path(f"/sys/class/infiniband/{device}/ports/1")
    mapped = IPv6Address(f"::ffff:{address}")
    return next(
        int(entry.name)
        for entry in (port / "gids").iterdir()
        if IPv6Address(entry.read_text().strip()) == mapped
        and (port / "gid_attrs/types" / entry.name).read_text().strip() == "RoCE v2"
    )


async def round_trip(client: Client, size: int) -> None:
    data, received = random.Random(size).randbytes(size), bytearray(size)
    stored = await client.put_from(BUCKET, f"size-{size}", data)
    fetched = await client.get_into(BUCKET, f"size-{size}", received)
    assert received == data
    assert (stored.path, fetched.path) == (TransferPath.RDMA, TransferPath.RDMA)
    assert stored.etag.strip('"') == hashlib.md5(data).hexdigest()
