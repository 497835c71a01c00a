"""Which objects, and which files, the words of a command line mean."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from gateway.cli.objects import names
from gateway.cli.options import S3Url
from gateway.client import Client, Listing, ObjectSummary, ObjectVersion, S3Error


@dataclass(frozen=True, slots=True)
class Object:
    """An object that a source names.

    Attributes:
        name: relative to the source: its own last name, or what is below a prefix.
        modified_s: whole seconds since 1970; None where nobody said.
    """

    url: S3Url
    name: str
    size_bytes: int = 0
    modified_s: int | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A file that a source names; `name` as of `Object`, with slashes."""

    path: Path
    name: str
    size_bytes: int = 0
    modified_s: float = 0.0
    problem: Exception | None = None


async def pages(
    client: Client, bucket: str, prefix: str = "", delimiter: str = ""
) -> AsyncIterator[Listing]:
    """A listing, page by page."""
    token: str | None = None
    while True:
        page = await client.list_objects(bucket, prefix, delimiter=delimiter, token=token)
        yield page
        token = page.next_token
        if token is None:
            return


async def versions(client: Client, bucket: str, prefix: str = "") -> AsyncIterator[ObjectVersion]:
    """Every version and delete marker below a prefix."""
    marker: tuple[str, str] | None = None
    while True:
        page = await client.list_versions(bucket, prefix, marker=marker)
        for version in page.versions:
            yield version
        marker = page.next_marker
        if marker is None:
            return


async def object_at(client: Client, url: S3Url, version_id: str | None = None) -> Object:
    """The one object of exactly that key. Raises S3Error."""
    head = await client.head(url.bucket, url.key, version_id)
    try:
        modified_s = int(parsedate_to_datetime(head.last_modified).timestamp())
    except ValueError:
        modified_s = None
    return Object(url, names.last_name(url.key), head.size_bytes, modified_s)


async def objects(client: Client, url: S3Url, *, recursive: bool) -> AsyncIterator[Object]:
    """The object at a URL; with `recursive` also all below it, in byte order of their keys.

    Raises:
        S3Error: there is none.
    """
    there = False
    if url.key and not url.key.endswith("/"):
        try:
            found = await object_at(client, url)
        except S3Error as error:
            if error.status != 404 or not recursive:
                raise
        else:
            there = True
            yield found
    elif not recursive:
        raise ValueError(f"{url} is a prefix: add --recursive for what is below it")
    if recursive:
        prefix = names.as_directory(url.key)
        async for page in pages(client, url.bucket, prefix):
            for summary in page.objects:
                there = True
                yield _of_summary(url.bucket, prefix, summary)
    if not there:
        raise S3Error("NoSuchKey", 404, "there is no object of that name, and none below it")


def files(path: Path, *, recursive: bool) -> Iterator[File]:
    """The file at a path; with `recursive`, all below a directory, sorted.

    Symbolic links to files are followed; those to directories are not, for they may lead in
    circles. What can't be looked at is told with its problem.
    """
    if not path.is_dir():
        yield _file(path, path.name)
        return
    if not recursive:
        yield File(path, path.name, problem=ValueError(f"{path} is a directory: add --recursive"))
        return
    problems: list[OSError] = []
    for top, directories, members in os.walk(path, onerror=problems.append):
        directories.sort()
        here = Path(top)
        for name in sorted(members):
            yield _file(here / name, (here / name).relative_to(path).as_posix())
    for problem in problems:
        yield File(Path(problem.filename), str(problem.filename), problem=problem)


def _file(path: Path, name: str) -> File:
    try:
        status = path.stat()
    except OSError as error:
        return File(path, name, problem=error)
    if not stat.S_ISREG(status.st_mode):
        return File(path, name, problem=ValueError(f"{path} is not a regular file"))
    return File(path, name, status.st_size, status.st_mtime)


def _of_summary(bucket: str, prefix: str, summary: ObjectSummary) -> Object:
    return Object(
        S3Url(bucket, summary.key),
        summary.key.removeprefix(prefix),
        summary.size_bytes,
        iso_seconds(summary.last_modified),
    )


def iso_seconds(text: str) -> int | None:
    """``2026-03-01T12:00:00.000Z`` as whole seconds since 1970; None where it is no time."""
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return None
