"""The client's copies part by part, beside the server's CopyObject: nothing tells them apart."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from botocore.credentials import Credentials
from gateway_process import GatewayProcess

from gateway.client import Client
from gateway.config import MIB
from gateway.config.client import ClientLimits

SIZE_BYTES = 11 * MIB + 1
DESCRIBED = {
    "Metadata": {"epoch": "7", "note": "a  b"},
    "ContentType": "application/x-checkpoint",
    "CacheControl": "max-age=60",
    "ContentDisposition": 'attachment; filename="a b.pt"',
    "ContentEncoding": "zstd",
    "ContentLanguage": "de",
    "Expires": datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC),
}
TAGS = [{"Key": "run +=@", "Value": "ü = 1"}, {"Key": "empty", "Value": ""}]
VARIES = {"ResponseMetadata", "VersionId", "LastModified", "ETag"}


def described(s3: Any, bucket: str, key: str) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """All that is known of an object, but for what a copy has of its own; and its tags."""
    head = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    tags = s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    return {name: head[name] for name in head.keys() - VARIES}, tags


async def test_copy_object__in_parts__is_described_as_by_one_request(
    served: GatewayProcess, s3: Any, bucket: str
) -> None:
    data = random.Random(7).randbytes(SIZE_BYTES)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    put = s3.put_object(
        Bucket=bucket, Key="s", Body=data, ChecksumAlgorithm="CRC64NVME", **DESCRIBED
    )
    version_id = put["VersionId"]
    s3.put_object_tagging(Bucket=bucket, Key="s", Tagging={"TagSet": TAGS})
    s3.put_object(Bucket=bucket, Key="s", Body=b"newer", Tagging="of=another+version")
    source = {"Bucket": bucket, "Key": "s", "VersionId": version_id}
    s3.copy_object(Bucket=bucket, Key="at-once", CopySource=source)
    async with Client(
        endpoint_url=served.endpoint,
        region_name="us-east-1",
        credentials=Credentials(served.access_key, served.secret_key),
        limits=ClientLimits(copy_bytes=MIB, copy_part_bytes=5 * MIB),
    ) as client:
        await client.copy_object((bucket, "s"), (bucket, "parts"), version_id=version_id)
    assert s3.get_object(Bucket=bucket, Key="parts")["Body"].read() == data
    assert described(s3, bucket, "parts") == described(s3, bucket, "at-once")
    head, tags = described(s3, bucket, "parts")
    assert DESCRIBED.items() <= head.items()
    assert sorted(tags, key=str) == sorted(TAGS, key=str)
    parts = s3.head_object(Bucket=bucket, Key="parts", PartNumber=1)
    assert parts["PartsCount"] == 3
