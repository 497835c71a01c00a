"""One key signs upstream for many accounts: whose a bucket or object is, is kept with it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from s3_servers import S3Server
from storing import draft, new_bucket, raises
from upstream_contract import upstream_storage

from gateway.errors import S3Code
from gateway.storage.port import Destination

SOMEBODY, OTHER = "a" * 64, "b" * 64
TAGS = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"


async def test_bucket__of_an_account__every_gateway_sees_whose_it_is(rgw: S3Server) -> None:
    async with upstream_storage(rgw) as one:
        await one.create_bucket(new_bucket("bucket", owner=SOMEBODY))
        await one.create_bucket(new_bucket("own"))
        for owner, code in (
            (SOMEBODY, S3Code.BUCKET_ALREADY_OWNED_BY_YOU),
            (OTHER, S3Code.BUCKET_ALREADY_EXISTS),
        ):
            with raises(code):
                await one.create_bucket(new_bucket("bucket", owner=owner))
        owners = {info.name: info.owner for info in await one.list_buckets()}
        assert owners == {"bucket": SOMEBODY, "own": ""}


async def test_bucket__its_tags_change__owner_stays_and_is_not_shown(rgw: S3Server) -> None:
    async with upstream_storage(rgw) as storage:
        await storage.create_bucket(new_bucket("bucket", owner=SOMEBODY))
        assert (await storage.head_bucket("bucket")).settings == {}
        for settings in ({"tagging": TAGS}, {}):
            await storage.update_bucket(
                "bucket",
                lambda info, settings=settings: replace(info, settings=settings),  # type: ignore[misc]
            )
            info = await storage.head_bucket("bucket")
            assert info.owner == SOMEBODY
            assert info.settings.keys() == settings.keys()
            assert "s3rdma-owner" not in "".join(info.settings.values())
        with closing(rgw.client()) as s3:
            tags = s3.get_bucket_tagging(Bucket="bucket")["TagSet"]
        assert tags == [{"Key": "s3rdma-owner", "Value": SOMEBODY}]


async def test_object__of_an_account__its_owner_is_kept_and_no_metadata_shows_it(
    rgw: S3Server,
) -> None:
    async with upstream_storage(rgw) as storage:
        await storage.create_bucket(new_bucket("bucket"))
        staged = await storage.stage("bucket", 4, Destination("key", owner=SOMEBODY))
        await staged.write(b"data")
        wanted = replace(draft(b"data"), owner=SOMEBODY)
        await storage.commit_object(staged, "bucket", "key", wanted)
        found = await storage.head_object("bucket", "key", None)
        assert (found.owner, found.attributes.metadata) == (SOMEBODY, {})
