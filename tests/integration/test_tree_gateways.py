"""Two gateway processes on one tree, beside programs that know nothing of either."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from boto3_client import boto3_client
from botocore.exceptions import ClientError
from gateway_process import GatewayProcess, gateway_process
from mixed_load import mixed_load
from raw_rc import EngineClient, rc_peer
from rc_client import Desk
from signed_http import session, signed

from gateway.config import MIB, RdmaConfig

BUCKET = "shared"
SOFT = RdmaConfig(fabric="soft")
ROUNDS, RACERS = 20, 16
WRITERS, INCREMENTS = 4, 15
MIXED_OPERATIONS = 600


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of somebody's, with a bucket in it."""
    made = tmp_path_factory.mktemp("tree")
    (made / BUCKET).mkdir()
    return made


@pytest.fixture(scope="module")
def gateways(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    flags = ("--storage-driver", "tree", "--tree-root", str(root))
    with ExitStack() as stack:
        both = [
            stack.enter_context(
                gateway_process(tmp_path_factory.mktemp(name), *flags, "--rdma-fabric", fabric)
            )
            for name, fabric in (("one", "soft"), ("other", "off"))
        ]
        yield both[0], both[1]


@pytest.fixture(scope="module")
def clients(gateways: tuple[GatewayProcess, GatewayProcess]) -> Iterator[tuple[Any, Any]]:
    with closing(boto3_client(gateways[0])) as one, closing(boto3_client(gateways[1])) as other:
        yield one, other


async def test_put_if_none_match__through_both_gateways__exactly_one_wins_each_round(
    gateways: tuple[GatewayProcess, GatewayProcess], root: Path
) -> None:
    async with session(RACERS) as client:

        async def race(key: str, racer: int) -> int:
            headers = {"If-None-Match": "*"}
            target = f"/{BUCKET}/{key}"
            gateway = gateways[racer % 2]
            async with signed(client, gateway, "PUT", target, b"%d" % racer, headers) as answer:
                await answer.read()
                return int(answer.status)

        for number in range(ROUNDS):
            key = f"locks/{number}/lock"
            statuses = await asyncio.gather(*(race(key, racer) for racer in range(RACERS)))
            assert Counter(statuses) == {200: 1, 412: RACERS - 1}
            winner = statuses.index(200)
            assert (root / BUCKET / key).read_bytes() == b"%d" % winner


async def test_put_if_match__counter_through_both_gateways__no_increment_is_lost(
    gateways: tuple[GatewayProcess, GatewayProcess], root: Path
) -> None:
    target = f"/{BUCKET}/counter"
    (root / BUCKET / "counter").write_bytes(b"0")
    async with session(WRITERS) as client:

        async def increment(gateway: GatewayProcess) -> bool:
            async with signed(client, gateway, "GET", target, b"", {}) as answer:
                value, etag = int(await answer.read()), answer.headers["etag"]
            wanted = b"%d" % (value + 1)
            async with signed(client, gateway, "PUT", target, wanted, {"If-Match": etag}) as answer:
                await answer.read()
                assert answer.status in (200, 412)
                return int(answer.status) == 200

        async def work(gateway: GatewayProcess) -> None:
            done = 0
            while done < INCREMENTS:
                done += await increment(gateway)

        await asyncio.gather(*(work(gateways[number % 2]) for number in range(WRITERS)))
    assert (root / BUCKET / "counter").read_bytes() == b"%d" % (WRITERS * INCREMENTS)


def test_upload__parts_through_either_gateway__one_file(
    clients: tuple[Any, Any], root: Path
) -> None:
    one, other = clients
    where = {"Bucket": BUCKET, "Key": "dir/large"}
    upload = one.create_multipart_upload(**where, Metadata={"a": "b"})["UploadId"]
    bodies = [secrets.token_bytes(5 * MIB), secrets.token_bytes(5 * MIB), b"end"]
    parts = [
        {
            "PartNumber": number,
            "ETag": (one, other)[number % 2].upload_part(
                **where, UploadId=upload, PartNumber=number, Body=body
            )["ETag"],
        }
        for number, body in enumerate(bodies, 1)
    ]
    assert len(one.list_parts(**where, UploadId=upload)["Parts"]) == 3
    done = {**where, "UploadId": upload, "MultipartUpload": {"Parts": parts}}
    answer = other.complete_multipart_upload(**done)
    assert one.complete_multipart_upload(**done)["ETag"] == answer["ETag"]
    inner = b"".join(hashlib.md5(body).digest() for body in bodies)
    assert answer["ETag"] == f'"{hashlib.md5(inner).hexdigest()}-3"'
    assert (root / BUCKET / "dir" / "large").read_bytes() == b"".join(bodies)
    found = one.head_object(**where)
    assert (found["Metadata"], found["ETag"]) == ({"a": "b"}, answer["ETag"])
    assert one.head_object(**where, PartNumber=2)["ContentLength"] == 5 * MIB


def test_files_of_another_program__either_gateway__objects_at_once(
    clients: tuple[Any, Any], root: Path
) -> None:
    home = root / BUCKET / "foreign"
    home.mkdir()
    (home / "file").write_bytes(b"first")
    for s3 in clients:
        listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="foreign/")["Contents"]
        assert [(one["Key"], one["Size"]) for one in listed] == [("foreign/file", 5)]
        found = s3.get_object(Bucket=BUCKET, Key="foreign/file")
        assert (found["Body"].read(), found["ETag"]) == (b"first", listed[0]["ETag"])
    (home / "file").write_bytes(b"second, longer")
    ranged = {"Bucket": BUCKET, "Key": "foreign/file", "Range": "bytes=0-3"}
    with pytest.raises(ClientError, match="PreconditionFailed"):
        clients[0].get_object(**ranged, IfMatch=found["ETag"])
    assert clients[0].get_object(**ranged)["Body"].read() == b"seco"
    (home / "file").unlink()
    for s3 in clients:
        assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET, Prefix="foreign/")


def test_copy_tags_and_batch_delete__either_gateway__as_on_any_storage(
    clients: tuple[Any, Any], root: Path
) -> None:
    one, other = clients
    one.put_object(Bucket=BUCKET, Key="x/source", Body=b"data", ContentType="text/x", Tagging="a=b")
    other.copy_object(Bucket=BUCKET, Key="x/copy", CopySource=f"{BUCKET}/x/source")
    assert one.get_object(Bucket=BUCKET, Key="x/copy")["ContentType"] == "text/x"
    one.put_object_tagging(Bucket=BUCKET, Key="x/copy", Tagging={"TagSet": []})
    assert other.get_object_tagging(Bucket=BUCKET, Key="x/copy")["TagSet"] == []
    assert other.get_object_tagging(Bucket=BUCKET, Key="x/source")["TagSet"] != []
    versions = other.list_object_versions(Bucket=BUCKET, Prefix="x/")["Versions"]
    assert [(each["Key"], each["VersionId"]) for each in versions] == [
        ("x/copy", "null"),
        ("x/source", "null"),
    ]
    gone = {"Objects": [{"Key": each["Key"]} for each in versions]}
    assert len(other.delete_objects(Bucket=BUCKET, Delete=gone)["Deleted"]) == 2
    assert not (root / BUCKET / "x").exists()


def test_what_a_path_cannot_be__either_gateway__s3_errors_that_explain(
    clients: tuple[Any, Any],
) -> None:
    one, other = clients
    one.put_object(Bucket=BUCKET, Key="taken", Body=b"")
    for key, code, words in (
        ("taken/below", "ObjectParentIsFile", "a file has nothing below"),
        ("a//b", "InvalidArgument", "no empty segment"),
        ("n" * 256, "InvalidArgument", "255 at most"),
        (".s3rdma/x", "InvalidArgument", "tree.meta_name"),
    ):
        with pytest.raises(ClientError, match=words) as caught:
            other.put_object(Bucket=BUCKET, Key=key, Body=b"")
        assert caught.value.response["Error"]["Code"] == code
    with pytest.raises(ClientError, match="NotImplemented"):
        one.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    assert one.head_object(Bucket=BUCKET, Key="taken")["ContentLength"] == 0


def test_bucket__made_by_one_configured_and_removed_by_the_other__a_directory(
    clients: tuple[Any, Any], root: Path
) -> None:
    one, other = clients
    one.create_bucket(Bucket="made-here")
    assert (root / "made-here").is_dir()
    tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
    other.put_bucket_tagging(Bucket="made-here", Tagging=tags)
    assert one.get_bucket_tagging(Bucket="made-here")["TagSet"] == tags["TagSet"]
    assert {"made-here", BUCKET} <= {each["Name"] for each in one.list_buckets()["Buckets"]}
    other.delete_bucket(Bucket="made-here")
    assert "made-here" not in os.listdir(root)


async def test_mixed_operations__32_clients_on_50_keys__every_history_can_be_explained(
    gateways: tuple[GatewayProcess, GatewayProcess],
) -> None:
    outcome = await mixed_load(gateways[1], operations=MIXED_OPERATIONS)
    assert outcome.wrong == []
    assert outcome.broken_keys() == []


# By RDMA


@pytest.fixture
async def peer(
    gateways: tuple[GatewayProcess, GatewayProcess],
) -> AsyncIterator[EngineClient]:
    async with rc_peer(Desk.of(gateways[0]), SOFT) as connected:
        yield connected


@pytest.mark.parametrize("size", [1, 64 * 1024 + 1, 20 * MIB])
async def test_rdma__put_and_get__the_file_and_what_another_program_made_of_it(
    peer: EngineClient, clients: tuple[Any, Any], root: Path, size: int
) -> None:
    data, target = secrets.token_bytes(size), bytearray(size)
    file = root / BUCKET / "rdma" / str(size)
    answer = await peer.put(f"/{BUCKET}/rdma/{size}", data)
    assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (200, "200")
    assert file.read_bytes() == data
    assert answer.headers["etag"] == f'"{hashlib.md5(data).hexdigest()}"'
    found = clients[1].head_object(Bucket=BUCKET, Key=f"rdma/{size}")
    assert found["ETag"] == answer.headers["etag"]
    file.write_bytes(data[::-1])
    answer = await peer.get(f"/{BUCKET}/rdma/{size}", target)
    assert (answer.status, answer.headers["x-amz-rdma-reply"]) == (200, "200")
    assert target == data[::-1]
