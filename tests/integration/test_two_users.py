"""The gateway as root and its client as nobody, on one host: no right to each other's memory."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import other_user_client
import pytest
from boto3_client import boto3_client
from gateway_process import GatewayProcess, gateway_process

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")

BUCKET = "shared"
SIZES = (1, 4096, 2**20 + 1, 16 * 2**20)


@pytest.fixture(scope="module", params=["local", "udp"])
def carrier(request: pytest.FixtureRequest) -> str:
    """What must carry the bytes: the client would rather have the first."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def soft(carrier: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    flags = ("--rdma-fabric", "soft", "--rdma-lanes", "2x1MiB,1x16MiB")
    offers = ("--rdma-soft-carrier", "udp") if carrier == "udp" else ()
    with gateway_process(tmp_path_factory.mktemp("soft"), *flags, *offers) as process:
        yield process


def test_put_and_get__client_of_another_user__bytes_are_identical(
    soft: GatewayProcess, carrier: str
) -> None:
    done = subprocess.run(
        [sys.executable, other_user_client.__file__, "nobody", BUCKET, *map(str, SIZES)],
        env=os.environ | soft.client_environment,
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    with closing(boto3_client(soft)) as witness:
        for size, result in zip(SIZES, json.loads(done.stdout), strict=True):
            expected = hashlib.sha256(random.Random(size).randbytes(size)).hexdigest()
            body = witness.get_object(Bucket=BUCKET, Key=f"size-{size}")["Body"]
            assert hashlib.sha256(body.read()).hexdigest() == expected
            assert result["sha256"] == expected
            assert result["carriers"] == [carrier, carrier]
