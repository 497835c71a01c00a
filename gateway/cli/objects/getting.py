"""``get``: objects into files, a directory, or standard output."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from gateway.cli import remote
from gateway.cli.objects import names, sources, stream
from gateway.cli.objects.globs import Globs
from gateway.cli.objects.run import run_plan, version_problem
from gateway.cli.objects.sources import Object
from gateway.cli.objects.tasks import Item, SkippedError, Task, refused
from gateway.cli.options import STANDARD_STREAM, S3Url
from gateway.client import Client, S3Error, Transfer
from gateway.client.download import Progress

_VERB = "get"


def get(args: argparse.Namespace) -> int:
    """``s3rdma get s3://bucket/key… TARGET``; returns the exit code."""
    if (problem := version_problem(args)) is not None:
        return remote.complain(problem, remote.USAGE)
    if args.target == STANDARD_STREAM:
        return _to_stdout(args)
    into = args.recursive or len(args.sources) > 1 or args.target.endswith("/")
    directory = Path(args.target) if into or os.path.isdir(args.target) else None
    if directory is None or not args.recursive:
        for url in args.sources:
            if (problem := _unnamed(url, directory)) is not None:
                return remote.complain(problem, remote.USAGE)
    if directory is not None and directory.exists() and not directory.is_dir():
        return remote.complain(f"{directory} is not a directory", remote.USAGE)
    return run_plan(_VERB, args, lambda client: _plan(client, args, directory))


def _unnamed(url: S3Url, directory: Path | None) -> str | None:
    """What is wrong with a URL that has to name an object, and perhaps a file as well."""
    if not url.key:
        return f"{url} names no key (--recursive gets all that is below)"
    if directory is not None and names.last_name(url.key) in {"", ".", ".."}:
        return f"{url} has no file name: give one (--recursive gets all that is below)"
    return None


def _to_stdout(args: argparse.Namespace) -> int:
    if args.recursive or len(args.sources) > 1:
        return remote.complain("standard output takes one object", remote.USAGE)
    url: S3Url = args.sources[0]
    if not url.key:
        return remote.complain(f"{url} names no key", remote.USAGE)

    async def plan(client: Client) -> AsyncIterator[Task]:
        item = Item(_VERB, url, STANDARD_STREAM, version_id=args.version_id)
        yield Task(item, partial(stream.to_stdout, client, url, args.version_id, args.part_size))

    return run_plan(_VERB, args, plan, to_stdout=True)


async def _plan(
    client: Client, args: argparse.Namespace, directory: Path | None
) -> AsyncIterator[Task]:
    globs = Globs.of(args.include, args.exclude)
    for url in args.sources:
        if directory is None or not args.recursive:
            path = Path(args.target) if directory is None else directory / names.last_name(url.key)
            yield await _single(client, args, url, path)
            continue
        nesting = names.Nesting()
        try:
            async for found in sources.objects(client, url, recursive=True):
                if found.name and globs.take(found.name):
                    yield _placed(client, args, found, directory, nesting)
        except (S3Error, ValueError) as error:
            yield refused(Item(_VERB, url, args.target), error)


async def _single(client: Client, args: argparse.Namespace, url: S3Url, path: Path) -> Task:
    """One object; what there is to know of it is asked only where that decides something."""
    item = Item(_VERB, url, str(path), version_id=args.version_id)
    found = Object(url, path.name)
    if args.update:
        try:
            found = await sources.object_at(client, url, args.version_id)
        except S3Error as error:
            return refused(item, error)
    return Task(item, partial(_fetch, client, args, found, path))


def _placed(
    client: Client,
    args: argparse.Namespace,
    found: Object,
    directory: Path,
    nesting: names.Nesting,
) -> Task:
    """One of many, below the directory."""
    item = Item(_VERB, found.url, str(directory / found.name.lstrip("/")), found.size_bytes)
    if found.name.endswith("/") and not found.size_bytes:
        return _marker(item, found, directory)
    above = nesting.file_above(found.name)
    if above is not None:
        error = names.UnsafeNameError(
            f"{above!r} is an object as well, so its file can't be this one's directory"
        )
        return refused(item, error)
    try:
        path = names.below(directory, found.name)
    except names.UnsafeNameError as error:
        return refused(item, error)
    return Task(item, partial(_fetch, client, args, found, path))


def _marker(item: Item, found: Object, directory: Path) -> Task:
    """An empty object that other programs keep to show a directory."""

    async def work(_progress: Progress) -> None:
        names.below(directory, found.name[:-1]).mkdir(parents=True, exist_ok=True)

    return Task(item, work)


async def _fetch(
    client: Client, args: argparse.Namespace, found: Object, path: Path, progress: Progress
) -> Transfer:
    _check_needed(args, found, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return await client.get_file(
        found.url.bucket,
        found.url.key,
        path,
        version_id=args.version_id,
        resume=args.resume,
        progress=progress,
    )


def _check_needed(args: argparse.Namespace, found: Object, path: Path) -> None:
    """Raise SkippedError where the file is there already, or is the same."""
    if args.no_clobber and os.path.lexists(path):
        raise SkippedError("it is there already")
    if args.update and _same(path, found):
        raise SkippedError("it is the same there")


def _same(path: Path, found: Object) -> bool:
    """Whether a file is as long as the object and not older; a get makes it exactly as old."""
    try:
        status = path.stat()
    except OSError:
        return False
    modified_s = found.modified_s
    return status.st_size == found.size_bytes and (
        modified_s is not None and int(status.st_mtime) >= modified_s
    )
