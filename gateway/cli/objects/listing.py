"""``ls`` and ``mb``: what is there, and a new bucket."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from gateway.cli import remote
from gateway.cli.objects import sources
from gateway.cli.options import S3Url
from gateway.client import Bucket, Client, ObjectSummary, ObjectVersion

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SIZE_COLUMNS = 14


def ls(args: argparse.Namespace) -> int:
    """``s3rdma ls [s3://bucket[/prefix]]``: page after page, each printed as it comes."""
    url: S3Url | None = args.url

    async def work(client: Client) -> None:
        if url is None:
            for bucket in await client.list_buckets():
                print(_bucket_row(bucket, as_json=args.json))
        elif args.versions:
            async for version in sources.versions(client, url.bucket, url.key):
                print(_version_row(version, args))
        else:
            await _ls_objects(client, args, url)

    return remote.run(args, work, str(url or ""))


async def _ls_objects(client: Client, args: argparse.Namespace, url: S3Url) -> None:
    """Prefixes and keys of each page, each kind in order; at the end perhaps how much it was."""
    count = total_bytes = 0
    delimiter = "" if args.recursive else "/"
    async for page in sources.pages(client, url.bucket, url.key, delimiter):
        for prefix in page.prefixes:
            print(_prefix_row(prefix, as_json=args.json))
        for summary in page.objects:
            count, total_bytes = count + 1, total_bytes + summary.size_bytes
            print(_object_row(summary, args))
    if not args.summarize:
        return
    if args.json:
        print(json.dumps({"summary": {"objects": count, "bytes": total_bytes}}))
    else:
        print(f"{count} objects, {_size(args)(total_bytes).strip()}")


def mb(args: argparse.Namespace) -> int:
    """``s3rdma mb s3://bucket``."""
    url: S3Url = args.url

    async def work(client: Client) -> None:
        await client.create_bucket(url.bucket)

    return remote.run(args, work, str(url))


def human(size_bytes: float) -> str:
    """``1.5 MiB``: four characters of number at most, and a unit."""
    steps = 0
    while size_bytes >= 1000 and steps < len(_UNITS) - 1:
        size_bytes, steps = size_bytes / 1024, steps + 1
    digits = 0 if not steps or size_bytes >= 100 else 1
    return f"{size_bytes:.{digits}f} {_UNITS[steps]}"


def _size(args: argparse.Namespace) -> Callable[[int], str]:
    return human if args.human_readable else str


def _bucket_row(bucket: Bucket, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"bucket": bucket.name, "created": bucket.created})
    return f"{_time(bucket.created)}  s3://{bucket.name}"


def _prefix_row(prefix: str, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"prefix": prefix})
    return f"{'PRE':>{19 + 2 + _SIZE_COLUMNS}}  {remote.printable(prefix)}"


def _object_row(summary: ObjectSummary, args: argparse.Namespace) -> str:
    if args.json:
        return json.dumps(_object_json(summary))
    return _columns(summary, args, remote.printable(summary.key))


def _version_row(version: ObjectVersion, args: argparse.Namespace) -> str:
    if args.json:
        marks = {
            "version_id": version.version_id,
            "latest": version.latest,
            "delete_marker": version.delete_marker,
        }
        return json.dumps(_object_json(version) | marks)
    mark = " (delete marker)" if version.delete_marker else " (latest)" if version.latest else ""
    return _columns(version, args, f"{version.version_id}  {remote.printable(version.key)}{mark}")


def _object_json(row: ObjectSummary | ObjectVersion) -> dict[str, object]:
    return {
        "key": row.key,
        "bytes": row.size_bytes,
        "etag": row.etag,
        "last_modified": row.last_modified,
    }


def _columns(row: ObjectSummary | ObjectVersion, args: argparse.Namespace, last: str) -> str:
    size = _size(args)(row.size_bytes)
    return f"{_time(row.last_modified)}  {size:>{_SIZE_COLUMNS}}  {last}"


def _time(iso: str) -> str:
    """``2026-03-01T12:00:00.000Z`` as ``2026-03-01 12:00:00``."""
    return iso[:19].replace("T", " ").ljust(19)
