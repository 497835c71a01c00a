"""The metrics of a real gateway: what clients did is what they count, as Prometheus reads them."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError

import pytest
from boto3_client import boto3_client
from botocore.exceptions import ClientError
from gateway_process import GatewayProcess, gateway_process
from prometheus_client.parser import text_string_to_metric_families
from promtool import promtool
from raw_http import RawClient
from raw_rdma import raw_peer

BUCKET = "counted"
SIZE_BYTES = 100_000


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("metrics")
    with gateway_process(directory, "--rdma-fabric", "soft") as process:
        yield process


def scraped(gateway: GatewayProcess) -> tuple[str, dict[tuple[str, ...], float]]:
    """The text, and the value of each sample by its name and the values of its labels."""
    with urllib.request.urlopen(f"{gateway.admin}/metrics") as reply:
        text = reply.read().decode()
    values = {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return text, values


async def test_metrics__after_requests_of_all_kinds__are_their_sums(
    gateway: GatewayProcess,
) -> None:
    with closing(boto3_client(gateway)) as s3:
        s3.create_bucket(Bucket=BUCKET)
        for number in range(3):
            s3.put_object(Bucket=BUCKET, Key=f"key-{number}", Body=bytes(SIZE_BYTES))
        s3.get_object(Bucket=BUCKET, Key="key-0")["Body"].read()
        with pytest.raises(ClientError):
            s3.get_object(Bucket=BUCKET, Key="missing")
        s3.list_buckets()  # by the same connection: the requests before it have been counted
    async with raw_peer(gateway, "soft") as peer:
        assert (await peer.put(f"/{BUCKET}/rdma", b"x" * SIZE_BYTES)).status == 200
        answer, _ = await peer.get(f"/{BUCKET}/rdma", SIZE_BYTES)
        assert answer.status == 200
    text, values = scraped(gateway)
    requests = "s3rdma_requests_total"
    assert values[requests, "PutObject", "200"] == 4  # with the one that a READY carried
    assert values[requests, "GetObject", "404"] == 1
    assert values[requests, "RdmaPrepare", "200"] == 2
    assert values["s3rdma_request_duration_seconds_count", "PutObject"] == 4
    assert values["s3rdma_request_first_byte_seconds_bucket", "+Inf", "GetObject"] >= 2
    moved = "s3rdma_moved_bytes_total"
    assert values[moved, "in", "http"] >= 3 * SIZE_BYTES
    assert SIZE_BYTES <= values[moved, "out", "http"] < 2 * SIZE_BYTES
    assert values[moved, "in", "rdma"] == values[moved, "out", "rdma"] == SIZE_BYTES
    assert values["s3rdma_transfers_total", "done", "rdma"] == 2
    assert values["s3rdma_completions_total", "SUCCESS"] >= 2
    assert values["s3rdma_commit_duration_seconds_count",] >= 5
    assert values["s3rdma_fabric_up",] == 1
    assert values["s3rdma_queue_pairs", "leased", "lane"] <= 2
    promtool("check", "metrics", given=text.encode())


def test_metrics__requests_that_are_none__make_no_series_of_their_own(
    gateway: GatewayProcess,
) -> None:
    with RawClient(gateway.address, gateway.access_key, gateway.secret_key) as raw:
        for number in range(20):
            raw.send(raw.head("GET", f"/?made-up-{number}", {"x-amz-made-up": str(number)}))
            assert raw.reply().status >= 400
    text, values = scraped(gateway)
    assert "made-up" not in text
    assert len({names[1] for names in values if names[0] == "s3rdma_requests_total"}) < 10


def test_readyz__store_is_taken_away__is_503_until_it_is_back(tmp_path: Path) -> None:
    flags = ("--rdma-fabric", "off", "--admin-check-interval-s", "0")
    with gateway_process(tmp_path, *flags) as process:
        with urllib.request.urlopen(f"{process.admin}/readyz") as reply:
            assert json.load(reply)["ready"] is True
        staging = tmp_path / "store"
        away = tmp_path / "away"
        shutil.move(staging, away)
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(f"{process.admin}/readyz")
        with refused.value as reply:
            told = json.load(reply)
        assert (refused.value.code, told["ready"]) == (503, False)
        assert told["checks"]["http"] == "ok"
        assert "/store/" in told["checks"]["storage"]
        shutil.move(away, staging)
        with urllib.request.urlopen(f"{process.admin}/readyz") as reply:
            assert reply.status == 200
