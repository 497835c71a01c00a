"""S3 clients as their users install them, behind one small face, for tests of daily commands."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from boto3_client import boto3_client
from botocore.exceptions import ClientError
from gateway_process import GatewayProcess

PROJECT = Path(__file__).parents[2]
CLIENTS_BIN = PROJECT / ".cache/clients/bin"
COMMAND_LIMIT_S = 60.0


class CommandError(Exception):
    """A client gave up; its own words are the text."""


class Client(Protocol):
    """The daily commands, each raising CommandError where the client reports failure.

    Made from a gateway and a directory for the client's own files.
    """

    def make_bucket(self, bucket: str) -> None: ...
    def remove_bucket(self, bucket: str) -> None: ...
    def put(self, file: Path, bucket: str, key: str) -> None: ...
    def get(self, bucket: str, key: str, file: Path) -> None: ...
    def copy(self, bucket: str, key: str, new_key: str) -> None: ...
    def sync(self, directory: Path, bucket: str) -> None:
        """Every file below `directory`, its relative path as the key."""

    def keys(self, bucket: str) -> set[str]: ...
    def remove(self, bucket: str, key: str) -> None: ...


def command(name: str) -> str:
    """The client's program; the error names how to get it."""
    found = shutil.which(name, path=f"{CLIENTS_BIN}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        raise CommandError(f"no {name} here: run `make setup-clients`")
    return found


def run(argv: list[str], environment: dict[str, str]) -> str:
    """One command's standard output."""
    base = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        argv,
        check=False,
        env=base | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
    )
    if done.returncode:
        raise CommandError(f"{argv}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Boto3:
    """boto3 in this process; transfers above 8 MiB are multipart by its defaults."""

    def __init__(self, gateway: GatewayProcess, _home: Path) -> None:
        self.s3 = boto3_client(gateway)

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except ClientError as error:
            raise CommandError(str(error)) from error

    def make_bucket(self, bucket: str) -> None:
        self._call(self.s3.create_bucket, Bucket=bucket)

    def remove_bucket(self, bucket: str) -> None:
        self._call(self.s3.delete_bucket, Bucket=bucket)

    def put(self, file: Path, bucket: str, key: str) -> None:
        self._call(self.s3.upload_file, str(file), bucket, key)

    def get(self, bucket: str, key: str, file: Path) -> None:
        self._call(self.s3.download_file, bucket, key, str(file))

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._call(self.s3.copy, {"Bucket": bucket, "Key": key}, bucket, new_key)

    def sync(self, directory: Path, bucket: str) -> None:
        for file in directory.rglob("*"):
            if file.is_file():
                self.put(file, bucket, file.relative_to(directory).as_posix())

    def keys(self, bucket: str) -> set[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        listing = self._call(pages.build_full_result)
        return {entry["Key"] for entry in listing.get("Contents", ())}

    def remove(self, bucket: str, key: str) -> None:
        self._call(self.s3.delete_object, Bucket=bucket, Key=key)


class AwsCli:
    """`aws s3 …` from PyPI's awscli."""

    def __init__(self, gateway: GatewayProcess, home: Path) -> None:
        self._argv = [command("aws"), "--endpoint-url", gateway.endpoint, "s3"]
        settings = home / "config"
        # Version 1 of the command presigns by SigV2 unless it is told otherwise.
        settings.write_text("[default]\ns3 =\n    signature_version = s3v4\n")
        self._environment = {
            "AWS_CONFIG_FILE": str(settings),
            "HOME": str(home),
            "AWS_ACCESS_KEY_ID": gateway.access_key,
            "AWS_SECRET_ACCESS_KEY": gateway.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",
        }

    def _aws(self, *words: str) -> str:
        return run([*self._argv, *words], self._environment)

    def make_bucket(self, bucket: str) -> None:
        self._aws("mb", f"s3://{bucket}")

    def remove_bucket(self, bucket: str) -> None:
        self._aws("rb", f"s3://{bucket}")

    def put(self, file: Path, bucket: str, key: str) -> None:
        self._aws("cp", str(file), f"s3://{bucket}/{key}")

    def get(self, bucket: str, key: str, file: Path) -> None:
        self._aws("cp", f"s3://{bucket}/{key}", str(file))

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._aws("cp", f"s3://{bucket}/{key}", f"s3://{bucket}/{new_key}")

    def sync(self, directory: Path, bucket: str) -> None:
        self._aws("sync", str(directory), f"s3://{bucket}")

    def keys(self, bucket: str) -> set[str]:
        listing = self._aws("ls", "--recursive", f"s3://{bucket}").splitlines()
        return {line.split(maxsplit=3)[3] for line in listing}  # date, time, size, key

    def remove(self, bucket: str, key: str) -> None:
        self._aws("rm", f"s3://{bucket}/{key}")

    def presign(self, bucket: str, key: str, expires_s: int) -> str:
        return self._aws("presign", f"s3://{bucket}/{key}", "--expires-in", str(expires_s)).strip()


class S3cmd:
    """PyPI's s3cmd; parts of 5 MiB."""

    def __init__(self, gateway: GatewayProcess, home: Path) -> None:
        address = gateway.endpoint.removeprefix("http://")
        settings = home / "s3cfg"
        settings.write_text(
            "[default]\n"
            f"access_key = {gateway.access_key}\n"
            f"secret_key = {gateway.secret_key}\n"
            f"host_base = {address}\n"
            f"host_bucket = {address}\n"  # no %(bucket)s: path addressing
            "use_https = False\n"
            "bucket_location = us-east-1\n"
            "max_retries = 1\n"
            "multipart_chunk_size_mb = 5\n"
        )
        self._argv = [command("s3cmd"), "-c", str(settings), "--no-progress"]
        self._environment = {"HOME": str(home)}

    def _s3cmd(self, *words: str) -> str:
        return run([*self._argv, *words], self._environment)

    def make_bucket(self, bucket: str) -> None:
        self._s3cmd("mb", f"s3://{bucket}")

    def remove_bucket(self, bucket: str) -> None:
        self._s3cmd("rb", f"s3://{bucket}")

    def put(self, file: Path, bucket: str, key: str) -> None:
        self._s3cmd("put", str(file), f"s3://{bucket}/{key}")

    def get(self, bucket: str, key: str, file: Path) -> None:
        self._s3cmd("get", f"s3://{bucket}/{key}", str(file))

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._s3cmd("cp", f"s3://{bucket}/{key}", f"s3://{bucket}/{new_key}")

    def sync(self, directory: Path, bucket: str) -> None:
        self._s3cmd("sync", f"{directory}/", f"s3://{bucket}/")

    def keys(self, bucket: str) -> set[str]:
        listing = self._s3cmd("ls", "--recursive", f"s3://{bucket}").splitlines()
        return {line.partition(f"s3://{bucket}/")[2] for line in listing}

    def remove(self, bucket: str, key: str) -> None:
        self._s3cmd("rm", f"s3://{bucket}/{key}")


class Rclone:
    """Debian's rclone; multipart from 5 MiB on."""

    def __init__(self, gateway: GatewayProcess, home: Path) -> None:
        self._argv = [command("rclone"), "--s3-upload-cutoff=5Mi", "--s3-chunk-size=5Mi"]
        self._argv += ["--retries=1", "--low-level-retries=1"]
        self._environment = {
            "HOME": str(home),
            "RCLONE_CONFIG": str(home / "rclone.conf"),
            "RCLONE_CONFIG_GW_TYPE": "s3",
            "RCLONE_CONFIG_GW_PROVIDER": "Other",
            "RCLONE_CONFIG_GW_ENDPOINT": gateway.endpoint,
            "RCLONE_CONFIG_GW_ACCESS_KEY_ID": gateway.access_key,
            "RCLONE_CONFIG_GW_SECRET_ACCESS_KEY": gateway.secret_key,
        }
        (home / "rclone.conf").touch()

    def _rclone(self, *words: str) -> str:
        return run([*self._argv, *words], self._environment)

    def make_bucket(self, bucket: str) -> None:
        self._rclone("mkdir", f"gw:{bucket}")

    def remove_bucket(self, bucket: str) -> None:
        self._rclone("rmdir", f"gw:{bucket}")

    def put(self, file: Path, bucket: str, key: str) -> None:
        self._rclone("copyto", str(file), f"gw:{bucket}/{key}")

    def get(self, bucket: str, key: str, file: Path) -> None:
        # Without the flag a missing key is an empty directory, copied with success.
        self._rclone("copyto", "--error-on-no-transfer", f"gw:{bucket}/{key}", str(file))

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._rclone("copyto", f"gw:{bucket}/{key}", f"gw:{bucket}/{new_key}")

    def sync(self, directory: Path, bucket: str) -> None:
        self._rclone("sync", str(directory), f"gw:{bucket}")

    def keys(self, bucket: str) -> set[str]:
        return set(self._rclone("lsf", "--recursive", "--files-only", f"gw:{bucket}").splitlines())

    def remove(self, bucket: str, key: str) -> None:
        self._rclone("deletefile", f"gw:{bucket}/{key}")
