"""Other people's S3 servers, for the upstream storage: Ceph RGW and moto, in processes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

RIG = Path(__file__).parents[1] / "rig"
START_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where it is, and its account's key."""

    name: str
    endpoint: str
    access_key: str
    secret_key: str

    def client(self) -> Any:
        """boto3, straight at it."""
        import boto3  # here: every test imports this module, and few need it
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
            config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}),
        )

    def purge(self) -> None:
        """No bucket is left."""
        if self.name == "moto":  # not all that it stores it can list again
            request = urllib.request.Request(f"{self.endpoint}/moto-api/reset", method="POST")
            urllib.request.urlopen(request, timeout=10).close()
            return
        client = self.client()
        for bucket in client.list_buckets()["Buckets"]:
            purge_bucket(client, bucket["Name"])
        client.close()


def purge_bucket(client: Any, bucket: str) -> None:
    """Every version, every upload, and the bucket."""
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for entry in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
            client.delete_object(Bucket=bucket, Key=entry["Key"], VersionId=entry["VersionId"])
    for upload in client.list_multipart_uploads(Bucket=bucket).get("Uploads", ()):
        client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    client.delete_bucket(Bucket=bucket)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_rgw(directory: Path) -> Iterator[S3Server]:
    """A single-node Ceph with its gateway, all of it in `directory`. Needs root."""
    port = free_port()
    script = str(RIG / "ceph-rgw")
    subprocess.run([script, "up", str(directory), str(port)], check=True, stdout=subprocess.DEVNULL)
    try:
        yield S3Server("rgw", f"http://127.0.0.1:{port}", "rgw-access", "rgw-secret")
    finally:
        subprocess.run([script, "down", str(directory)], check=True)


@contextmanager
def running_moto(directory: Path) -> Iterator[S3Server]:
    """moto's server, which keeps everything in memory and takes any key."""
    port = free_port()
    with (directory / "moto.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "moto.server", "-p", str(port)],
            stdout=log,
            stderr=log,
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _await_http(f"{endpoint}/moto-api/data.json")
        yield S3Server("moto", endpoint, "moto-access", "moto-secret")
    finally:
        child.kill()
        child.wait()


def require_rgw() -> None:
    """Skip where Ceph's daemons can't run at all; as root, their absence is a broken set-up."""
    if os.geteuid() != 0:
        pytest.skip("Ceph's daemons need root")
    if shutil.which("radosgw") is None:
        pytest.fail("no radosgw: run make setup-clients")


def _await_http(url: str) -> None:
    deadline_s = time.monotonic() + START_LIMIT_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except (urllib.error.URLError, OSError):
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
        else:
            return
