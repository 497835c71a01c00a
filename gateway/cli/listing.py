"""`ls` and `mb`: what is there, and a new bucket."""

from __future__ import annotations

import argparse
import json

from gateway.cli import remote
from gateway.cli.options import S3Url
from gateway.client import Bucket, Client, Listing, ObjectSummary


def ls(args: argparse.Namespace) -> int:
    """``s3rdma ls [s3://bucket[/prefix]]``: page after page, each printed as it comes."""
    url: S3Url | None = args.url

    async def work(client: Client) -> None:
        if url is None:
            for bucket in await client.list_buckets():
                print(_bucket_row(bucket, as_json=args.json))
            return
        delimiter = "" if args.recursive else "/"
        token: str | None = None
        while True:
            page = await client.list_objects(url.bucket, url.key, delimiter=delimiter, token=token)
            for row in _rows(page, as_json=args.json):
                print(row)
            token = page.next_token
            if token is None:
                return

    return remote.run(args, work, str(url or ""))


def mb(args: argparse.Namespace) -> int:
    """``s3rdma mb s3://bucket``."""
    url: S3Url = args.url

    async def work(client: Client) -> None:
        await client.create_bucket(url.bucket)

    return remote.run(args, work, str(url))


def _bucket_row(bucket: Bucket, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"bucket": bucket.name, "created": bucket.created})
    return f"{_time(bucket.created)}  s3://{bucket.name}"


def _rows(page: Listing, *, as_json: bool) -> list[str]:
    """Prefixes and keys of a page, each kind in order."""
    rows = [_prefix_row(prefix, as_json=as_json) for prefix in page.prefixes]
    return rows + [_object_row(summary, as_json=as_json) for summary in page.objects]


def _prefix_row(prefix: str, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"prefix": prefix})
    return f"{'PRE':>35}  {remote.printable(prefix)}"


def _object_row(summary: ObjectSummary, *, as_json: bool) -> str:
    if as_json:
        row = {
            "key": summary.key,
            "bytes": summary.size_bytes,
            "etag": summary.etag,
            "last_modified": summary.last_modified,
        }
        return json.dumps(row)
    return (
        f"{_time(summary.last_modified)}  {summary.size_bytes:>14}  {remote.printable(summary.key)}"
    )


def _time(iso: str) -> str:
    """``2026-03-01T12:00:00.000Z`` as ``2026-03-01 12:00:00``."""
    return iso[:19].replace("T", " ").ljust(19)
