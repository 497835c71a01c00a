"""``put``: files, directories or standard input into objects."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from gateway.cli import remote
from gateway.cli.objects import names, sources, stream
from gateway.cli.objects.globs import Globs
from gateway.cli.objects.run import run_plan
from gateway.cli.objects.sources import File
from gateway.cli.objects.tasks import Item, SkippedError, Task, refused
from gateway.cli.options import STANDARD_STREAM, S3Url
from gateway.client import Client, S3Error, Transfer
from gateway.client.download import Progress

_VERB = "put"


def put(args: argparse.Namespace) -> int:
    """``s3rdma put FILE… s3://bucket/key``; returns the exit code."""
    target: S3Url = args.target
    several = args.recursive or len(args.sources) > 1
    if STANDARD_STREAM in args.sources:
        return _from_stdin(args, several=several)
    if several and not args.recursive and target.key and not target.key.endswith("/"):
        return remote.complain(f"{target} must end with / to take several files", remote.USAGE)
    below = several or not target.key or target.key.endswith("/")
    return run_plan(_VERB, args, lambda client: _plan(client, args, below=below))


def _from_stdin(args: argparse.Namespace, *, several: bool) -> int:
    target: S3Url = args.target
    if several:
        return remote.complain("standard input is one object", remote.USAGE)
    if not names.last_name(target.key):
        return remote.complain(f"{target} names no key for standard input", remote.USAGE)

    async def plan(client: Client) -> AsyncIterator[Task]:
        item = Item(_VERB, target, STANDARD_STREAM)
        yield Task(item, partial(stream.from_stdin, client, target, args.content_type))

    return run_plan(_VERB, args, plan)


async def _plan(client: Client, args: argparse.Namespace, *, below: bool) -> AsyncIterator[Task]:
    globs = Globs.of(args.include, args.exclude)
    for source in args.sources:
        for file in sources.files(Path(source), recursive=args.recursive):
            url = names.joined(args.target, file.name) if below else args.target
            item = Item(_VERB, url, str(file.path), file.size_bytes)
            if file.problem is not None:
                yield refused(item, file.problem)
            elif not args.recursive or globs.take(file.name):
                yield Task(item, partial(_store, client, args, file, url))


async def _store(
    client: Client, args: argparse.Namespace, file: File, url: S3Url, progress: Progress
) -> Transfer:
    if args.no_clobber or args.update:
        await _check_needed(client, args, file, url)
    return await client.put_file(
        url.bucket,
        url.key,
        file.path,
        content_type=args.content_type,
        resume=args.resume,
        progress=progress,
    )


async def _check_needed(client: Client, args: argparse.Namespace, file: File, url: S3Url) -> None:
    """Raise SkippedError where the object is there already, or is the same."""
    try:
        there = await sources.object_at(client, url)
    except S3Error as error:
        if error.status == 404:
            return
        raise
    if args.no_clobber:
        raise SkippedError("it is there already")
    newer = there.modified_s is not None and there.modified_s >= int(file.modified_s)
    if there.size_bytes == file.size_bytes and newer:
        raise SkippedError("it is the same there")
