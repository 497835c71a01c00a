"""``rm`` and ``rb``: objects and buckets, away."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from gateway.cli import remote
from gateway.cli.objects import names, sources
from gateway.cli.objects.globs import Globs
from gateway.cli.objects.report import Report, Style
from gateway.cli.objects.run import version_problem
from gateway.cli.objects.tasks import Item, Row, Status
from gateway.cli.options import S3Url
from gateway.client import Client, Deletion, S3Error

_VERB = "rm"
_AT_ONCE = 1000
"""What one DeleteObjects takes."""


def rm(args: argparse.Namespace) -> int:
    """``s3rdma rm s3://bucket/key…``; returns the exit code."""
    if (problem := version_problem(args)) is not None:
        return remote.complain(problem, remote.USAGE)
    for url in args.sources:
        if not url.key and not args.recursive:
            return remote.complain(
                f"{url} names no key (--recursive removes all that is below)", remote.USAGE
            )
    single = not args.recursive and not args.all_versions and len(args.sources) == 1
    style = Style(args.json, args.quiet, args.verbose, single, sys.stdout)
    report = Report(_VERB, style)

    async def work(client: Client) -> None:
        for url in args.sources:
            removal = _Removal(client, url.bucket, report, dry_run=args.dry_run)
            try:
                async for item in _items(client, args, url):
                    await removal.add(item)
            except S3Error as error:
                report.tell(Row(Item(_VERB, url), Status.FAILED, reason=str(error)))
            await removal.flush()

    code = remote.run(args, work)
    return max(code, report.finish())


def rb(args: argparse.Namespace) -> int:
    """``s3rdma rb s3://bucket``; with ``--force`` everything in it goes first."""
    url: S3Url = args.url
    report = Report("rb", Style(quiet=True))

    async def work(client: Client) -> None:
        if args.force:
            removal = _Removal(client, url.bucket, report, dry_run=False)
            async for item in _versions(client, url, recursive=True):
                await removal.add(item)
            await removal.flush()
        await client.delete_bucket(url.bucket)

    return max(remote.run(args, work, str(url)), report.finish())


@dataclass(slots=True)
class _Removal:
    """Collects items of one bucket, and deletes them a thousand at a time."""

    client: Client
    bucket: str
    report: Report
    dry_run: bool
    _items: dict[Deletion, Item] = field(default_factory=dict)

    async def add(self, item: Item) -> None:
        self._items[Deletion(item.url.key, item.version_id)] = item
        if len(self._items) == _AT_ONCE:
            await self.flush()

    async def flush(self) -> None:
        items, self._items = self._items, {}
        if self.dry_run:
            for item in items.values():
                self.report.tell(Row(item, Status.PLANNED))
            return
        failures = await self.client.delete_objects(self.bucket, list(items))
        failed = {one.deletion: f"{one.code}: {one.message}" for one in failures}
        for deletion, item in items.items():
            reason = failed.get(deletion)
            status = Status.DONE if reason is None else Status.FAILED
            self.report.tell(Row(item, status, reason=reason or ""))


async def _items(client: Client, args: argparse.Namespace, url: S3Url) -> AsyncIterator[Item]:
    """What a URL means: one key, what is below it, or versions of these."""
    globs = Globs.of(args.include, args.exclude)
    if args.all_versions:
        found = _versions(client, url, recursive=args.recursive)
    elif args.recursive:
        found = _objects(client, url)
    else:
        yield Item(_VERB, url, version_id=args.version_id)
        return
    prefix = names.as_directory(url.key)
    async for item in found:
        if globs.take(item.url.key.removeprefix(prefix)):
            yield item


async def _objects(client: Client, url: S3Url) -> AsyncIterator[Item]:
    async for found in sources.objects(client, url, recursive=True):
        yield Item(_VERB, found.url, size_bytes=found.size_bytes)


async def _versions(client: Client, url: S3Url, *, recursive: bool) -> AsyncIterator[Item]:
    """Delete markers, too: without them a versioned bucket is never empty."""
    prefix = names.as_directory(url.key)
    there = False
    async for found in sources.versions(client, url.bucket, url.key):
        if found.key == url.key or (recursive and found.key.startswith(prefix)):
            there = True
            at = S3Url(url.bucket, found.key)
            yield Item(_VERB, at, size_bytes=found.size_bytes, version_id=found.version_id)
    if not there and url.key:
        raise S3Error("NoSuchKey", 404, "there is no version of that name")
