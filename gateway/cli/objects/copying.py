"""``cp``: objects to other keys and buckets, within the server."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from functools import partial

from gateway.cli import remote
from gateway.cli.objects import names, sources
from gateway.cli.objects.globs import Globs
from gateway.cli.objects.run import run_plan, version_problem
from gateway.cli.objects.sources import Object
from gateway.cli.objects.tasks import Item, SkippedError, Task, refused
from gateway.cli.options import S3Url
from gateway.client import Client, S3Error
from gateway.client.download import Progress

_VERB = "cp"


def cp(args: argparse.Namespace) -> int:
    """``s3rdma cp s3://bucket/key… s3://bucket/key``; returns the exit code."""
    if (problem := version_problem(args)) is not None:
        return remote.complain(problem, remote.USAGE)
    target: S3Url = args.target
    several = args.recursive or len(args.sources) > 1
    if several and not args.recursive and target.key and not target.key.endswith("/"):
        return remote.complain(f"{target} must end with / to take several objects", remote.USAGE)
    below = several or not target.key or target.key.endswith("/")
    return run_plan(_VERB, args, lambda client: _plan(client, args, below=below))


async def _plan(client: Client, args: argparse.Namespace, *, below: bool) -> AsyncIterator[Task]:
    globs = Globs.of(args.include, args.exclude)
    for url in args.sources:
        try:
            async for found in _found(client, args, url):
                if args.recursive and not globs.take(found.name):
                    continue
                target = names.joined(args.target, found.name) if below else args.target
                item = Item(_VERB, found.url, str(target), found.size_bytes, args.version_id)
                yield Task(item, partial(_copy, client, args, found, target))
        except (S3Error, ValueError) as error:
            yield refused(Item(_VERB, url, str(args.target)), error)


async def _found(client: Client, args: argparse.Namespace, url: S3Url) -> AsyncIterator[Object]:
    """A version is of one object, and its size is its own."""
    if args.version_id is not None:
        yield await sources.object_at(client, url, args.version_id)
        return
    async for found in sources.objects(client, url, recursive=args.recursive):
        yield found


async def _copy(
    client: Client, args: argparse.Namespace, found: Object, target: S3Url, _progress: Progress
) -> None:
    if args.no_clobber:
        try:
            await client.head(target.bucket, target.key)
        except S3Error as error:
            if error.status != 404:
                raise
        else:
            raise SkippedError("it is there already")
    source = found.url.bucket, found.url.key
    await client.copy_object(source, (target.bucket, target.key), version_id=args.version_id)
