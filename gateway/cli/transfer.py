"""`put` and `get`: the transfer, its progress, and the line that says how it went."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from gateway.cli import progress, remote
from gateway.cli.options import S3Url
from gateway.client import Client, Transfer, TransferPath


def put(args: argparse.Namespace) -> int:
    """``s3rdma put FILE s3://bucket/key``; without a key, or below a prefix, under FILE's name."""
    path: Path = args.file
    target: S3Url = args.target
    if not target.key or target.key.endswith("/"):
        target = replace(target, key=target.key + path.name)

    async def work(client: Client) -> None:
        wanted = not (args.quiet or args.json)
        with progress.shown(f"put {path.name}", wanted=wanted) as report:
            done = await client.put_file(target.bucket, target.key, path, progress=report)
        _tell("put", target, done, args)

    return remote.run(args, work, str(target))


def get(args: argparse.Namespace) -> int:
    """``s3rdma get s3://bucket/key FILE``; a directory takes it under the key's last name."""
    source: S3Url = args.source
    path: Path = args.file
    if not source.key:
        return remote.complain(f"{source} names no key", remote.USAGE)
    name = source.key.rpartition("/")[2]
    if path.is_dir():
        if name in {"", ".", ".."}:
            return remote.complain(f"{source} has no file name: give one", remote.USAGE)
        path /= name

    async def work(client: Client) -> None:
        wanted = not (args.quiet or args.json)
        with progress.shown(f"get {path.name}", wanted=wanted) as report:
            done = await client.get_file(source.bucket, source.key, path, progress=report)
        _tell("get", source, done, args)

    return remote.run(args, work, str(source))


def result_line(verb: str, done: Transfer) -> str:
    """``put 67108864 bytes in 0.52 s (0.13 GB/s) by RDMA (rxe0, verbs)``."""
    way = "RDMA" if done.path is TransferPath.RDMA else "HTTP"
    means = ", ".join(filter(None, (done.device, done.carrier)))
    detail = f" ({means})" if means else f": {done.reason}" if done.reason else ""
    return (
        f"{verb} {done.bytes} bytes in {done.seconds:.2f} s ({done.gigabytes_per_s:.2f} GB/s) "
        f"by {way}{remote.printable(detail)}"
    )


def _tell(verb: str, url: S3Url, done: Transfer, args: argparse.Namespace) -> None:
    if args.json:
        row = {
            "operation": verb,
            "bucket": url.bucket,
            "key": url.key,
            "bytes": done.bytes,
            "seconds": done.seconds,
            "gigabytes_per_s": done.gigabytes_per_s,
            "path": done.path.value,
            "device": done.device,
            "carrier": done.carrier,
            "reason": done.reason,
            "etag": done.etag,
            "version_id": done.version_id,
        }
        print(json.dumps(row))
    elif not args.quiet:
        print(result_line(verb, done))
