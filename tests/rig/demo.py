"""The main job on a real file: in and out by RDMA and by boto3, every way identical.

`demo.py FILE [FABRIC]`; `make demo` finds the file and takes the fabric that this host gives, `make
demo-rdma` demands a device. One gateway, one file: `s3rdma put` and `get` move it by RDMA, boto3
moves it over plain HTTP, and each fetches what the other stored. Exit status 0 only where all five
SHA-256 are equal and RDMA carried what it should.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
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
COPIES = 5  # of the file at once, at most: two stored, one on its way in, one back, and room


@dataclass(frozen=True, slots=True)
class Step:
    """One transfer as the table shows it; `sha256` of a PUT is its source's.

    Attributes:
        carrier: "verbs", "udp" or "local", by which RDMA went; "" where it was HTTP.
    """

    what: str
    length_bytes: int
    seconds: float
    sha256: str
    carrier: str


@dataclass(frozen=True, slots=True)
class Way:
    """How one transfer went: its seconds, and as in `Step` its carrier."""

    seconds: float
    carrier: str = ""


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def by_rdma(gateway: GatewayProcess, verb: str, *words: str) -> Way:
    """`s3rdma put|get --rdma`, which fails rather than fall back; its own seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", verb, *words, "--rdma", "--json"],
        env=os.environ | gateway.client_environment,
        check=True,
        stdout=subprocess.PIPE,
        timeout=COMMAND_LIMIT_S,
    )
    told = json.loads(done.stdout.splitlines()[0])
    return Way(told["seconds"], told["carrier"])


def timed(work: Callable[[], object]) -> Way:
    begun_s = time.perf_counter()
    work()
    return Way(time.perf_counter() - begun_s)


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
    puts: dict[str, Callable[[str], Way]] = {
        "RDMA": lambda key: by_rdma(gateway, "put", str(source), f"s3://{BUCKET}/{key}"),
        "boto3": lambda key: timed(lambda: s3.upload_file(str(source), BUCKET, key)),
    }
    gets: dict[str, Callable[[str], Way]] = {
        "RDMA": lambda key: by_rdma(gateway, "get", f"s3://{BUCKET}/{key}", str(back)),
        "boto3": lambda key: timed(lambda: s3.download_file(BUCKET, key, str(back))),
    }
    source_sha256 = sha256_of(source)
    for path, put in puts.items():
        way = put(f"by-{path}")
        size = source.stat().st_size
        yield Step(f"PUT by {path}", size, way.seconds, source_sha256, way.carrier)
    for origin in puts:
        for path, get in gets.items():
            way = get(f"by-{origin}")
            what, size = f"GET by {path}, stored by {origin}", back.stat().st_size
            yield Step(what, size, way.seconds, sha256_of(back), way.carrier)
            back.unlink()


def say(*words: object) -> None:
    """Each line as it happens: in an emulated machine the next may take a while."""
    print(*words, flush=True)


def show(step: Step) -> None:
    """One row of the table."""
    rate_gb_s = step.length_bytes / step.seconds / 1e9
    numbers = f"{step.length_bytes:>11}{step.seconds:>9.2f}{rate_gb_s:>8.3f}"
    say(f"{step.what:<30}{numbers}  {step.sha256[:16]}…  {step.carrier}".rstrip())


def perform(source: Path, scratch: Path, fabric: str) -> bool:
    """Everything on one gateway; whether all checksums agree."""
    say(f"\nfile     {source}, {source.stat().st_size} bytes\nSHA-256  {sha256_of(source)}")
    with gateway_process(scratch / "gateway", "--rdma-fabric", fabric) as gateway:
        say(f"RDMA     {gateway.rdma}\n")
        say(f"{'transfer':<30}{'bytes':>11}{'seconds':>9}{'GB/s':>8}  {'SHA-256':<17}  carrier")
        steps = []
        for step in transfers(gateway, source, scratch):
            show(step)
            steps.append(step)
        say("\nthe gateway's log of each RDMA transfer:")
        for line in gateway.log_lines(r"\brdma (PUT|GET|UploadPart)\b"):
            say(" ", line)
    carriers = {step.carrier for step in steps if step.carrier}
    say(f"\nRDMA was carried by: {', '.join(sorted(carriers))}")
    return len({step.sha256 for step in steps}) == 1


def scratch_place(source: Path) -> Path | None:
    """Memory, so that no disk is in the numbers, where there is room: a container's has 64 MB."""
    memory = Path("/dev/shm")
    needed_bytes = COPIES * source.stat().st_size
    roomy = memory.is_dir() and shutil.disk_usage(memory).free >= needed_bytes
    return memory if roomy else None


def main() -> int:
    """Run the demo on the file named; 0 where everything agrees."""
    source, fabric = Path(sys.argv[1]), (*sys.argv[2:], "auto")[0]
    with tempfile.TemporaryDirectory(dir=scratch_place(source)) as directory:
        try:
            agreed = perform(source, Path(directory), fabric)
        except (GatewayFailedError, subprocess.SubprocessError) as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
    say("all SHA-256 are equal" if agreed else "demo: THE SHA-256 DIFFER")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
