"""The main job on a real file: in and out by RDMA and by boto3, every way identical.

`demo.py FILE`, on a host with an RDMA device; `make demo` finds both. One gateway, one file:
`s3rdma put` and `get` move it by RDMA, boto3 moves it over plain HTTP, and each fetches what the
other stored. Exit status 0 only where all five SHA-256 are equal and RDMA carried what it should.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from gateway_process import GatewayFailedError, GatewayProcess, gateway_process

BUCKET = "demo"
COMMAND_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Step:
    """One transfer as the table shows it; `sha256` of a PUT is its source's."""

    what: str
    length_bytes: int
    seconds: float
    sha256: str


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def by_rdma(gateway: GatewayProcess, verb: str, *words: str) -> float:
    """`s3rdma put|get --rdma`, which fails rather than fall back; its own seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", verb, *words, "--rdma", "--json"],
        env=os.environ | gateway.client_environment,
        check=True,
        stdout=subprocess.PIPE,
        timeout=COMMAND_LIMIT_S,
    )
    return float(json.loads(done.stdout)["seconds"])


def timed(work: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    work()
    return time.perf_counter() - begun_s


def transfers(gateway: GatewayProcess, source: Path, scratch: Path) -> Iterator[Step]:
    """Two PUTs and four GETs: each path fetches its own object and the other's."""
    s3: Any = boto3.client(
        "s3",
        endpoint_url=gateway.endpoint,
        aws_access_key_id=gateway.access_key,
        aws_secret_access_key=gateway.secret_key,
        region_name="us-east-1",
    )
    s3.create_bucket(Bucket=BUCKET)
    back = scratch / "back"
    puts: dict[str, Callable[[str], float]] = {
        "RDMA": lambda key: by_rdma(gateway, "put", str(source), f"s3://{BUCKET}/{key}"),
        "boto3": lambda key: timed(lambda: s3.upload_file(str(source), BUCKET, key)),
    }
    gets: dict[str, Callable[[str], float]] = {
        "RDMA": lambda key: by_rdma(gateway, "get", f"s3://{BUCKET}/{key}", str(back)),
        "boto3": lambda key: timed(lambda: s3.download_file(BUCKET, key, str(back))),
    }
    source_sha256 = sha256_of(source)
    for path, put in puts.items():
        seconds = put(f"by-{path}")
        yield Step(f"PUT by {path}", source.stat().st_size, seconds, source_sha256)
    for origin in puts:
        for path, get in gets.items():
            seconds = get(f"by-{origin}")
            what = f"GET by {path}, stored by {origin}"
            yield Step(what, back.stat().st_size, seconds, sha256_of(back))
            back.unlink()


def say(*words: object) -> None:
    """Each line as it happens: in an emulated machine the next may take a while."""
    print(*words, flush=True)


def perform(source: Path, scratch: Path) -> bool:
    """Everything on one gateway; whether all checksums agree."""
    say(f"\nfile     {source}, {source.stat().st_size} bytes\nSHA-256  {sha256_of(source)}\n")
    with gateway_process(scratch / "gateway", "--rdma-fabric", "verbs") as gateway:
        say(f"{'transfer':<30}{'bytes':>11}{'seconds':>9}{'GB/s':>8}  SHA-256")
        seen = set()
        for step in transfers(gateway, source, scratch):
            rate_gb_s = step.length_bytes / step.seconds / 1e9
            numbers = f"{step.length_bytes:>11}{step.seconds:>9.2f}{rate_gb_s:>8.3f}"
            say(f"{step.what:<30}{numbers}  {step.sha256[:16]}…")
            seen.add(step.sha256)
        say("\nthe gateway's log of each RDMA transfer:")
        for line in gateway.log_lines(r"\brdma (PUT|GET|UploadPart)\b"):
            say(" ", line)
    return len(seen) == 1


def main() -> int:
    """Run the demo on the file named; 0 where everything agrees."""
    memory = Path("/dev/shm")  # no disk in the numbers
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        try:
            agreed = perform(Path(sys.argv[1]), Path(directory))
        except (GatewayFailedError, subprocess.SubprocessError) as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
    say("\nall SHA-256 are equal" if agreed else "\ndemo: THE SHA-256 DIFFER")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
