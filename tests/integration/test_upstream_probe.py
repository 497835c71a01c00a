"""What the gateway finds out at start about the service behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing

import pytest
from faulty_s3 import FaultySite, faulty_site
from s3_servers import S3Server, purge_bucket
from upstream_contract import upstream_config

from gateway.storage.upstream.abilities import Abilities
from gateway.storage.upstream.storage import UpstreamStorage

CEPH = Abilities(
    conditional_writes=True,
    conditional_completes=False,
    conditional_deletes=False,
    versioning=True,
    checksums=False,
    object_tagging=True,
    upload_tagging=False,
    acl=True,
    documents=frozenset({"cors", "object-lock", "policy", "tagging"}),
)
"""RGW 16.2, as seen by hand with boto3."""


def before(server: S3Server, **settings: str) -> UpstreamStorage:
    return UpstreamStorage(
        upstream_config(server, **settings),
        own_id="0" * 64,
        region="us-east-1",
        secrets=lambda _: None,
    )


@pytest.fixture
async def site() -> AsyncIterator[FaultySite]:
    async with faulty_site() as running:
        yield running


@pytest.mark.parametrize("bucket", ["", "scratch"])
async def test_probe__of_ceph__knows_what_it_can_and_leaves_nothing(
    rgw: S3Server, bucket: str
) -> None:
    with closing(rgw.client()) as s3:
        if bucket:
            s3.create_bucket(Bucket=bucket)
        names = [one["Name"] for one in s3.list_buckets()["Buckets"]]
        storage = before(rgw, probe_bucket=bucket)
        await storage.start()
        assert storage.abilities == CEPH
        assert "without conditional completes, conditional deletes" in storage.describe()
        await storage.stop()
        assert [one["Name"] for one in s3.list_buckets()["Buckets"]] == names
        if bucket:
            assert not s3.list_objects_v2(Bucket=bucket).get("Contents")
            assert not s3.list_multipart_uploads(Bucket=bucket).get("Uploads")
            purge_bucket(s3, bucket)


async def test_probe__no_bucket_may_be_made__promises_nothing_and_starts(site: FaultySite) -> None:
    site.fail("PutObject", "bad key")  # what making any other bucket looks like to it
    storage = before(S3Server("faulty", site.endpoint, "access", "secret"))
    await storage.start()
    assert storage.abilities == Abilities()
    await storage.stop()
