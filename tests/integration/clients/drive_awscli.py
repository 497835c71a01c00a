"""PyPI's aws-cli: `aws s3 …`, and `aws s3api` for a range.

`aws` is a Python program; each command here is what the script of that name calls, in one
interpreter, because starting a fresh one takes longer than all that it does.
"""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout

from awscli.clidriver import create_clidriver
from driving import PART_BYTES, CommandError, home, serve


class AwsCli:
    def __init__(self) -> None:
        settings = home() / "config"
        settings.write_text(
            f"[default]\ns3 =\n    multipart_threshold = {PART_BYTES}\n"
            f"    multipart_chunksize = {PART_BYTES}\n    addressing_style = path\n"
            # Version 1 of the command presigns by SigV2 unless it is told otherwise.
            "    signature_version = s3v4\n"
        )
        os.environ |= {"AWS_CONFIG_FILE": str(settings), "AWS_MAX_ATTEMPTS": "1"}

    def _aws(self, *words: str) -> str:
        said, complained = io.StringIO(), io.StringIO()
        with redirect_stdout(said), redirect_stderr(complained):
            status = create_clidriver().main(list(words))
        if status:
            raise CommandError(f"aws {words}: exit {status}\n{complained.getvalue()}")
        return said.getvalue()

    def make_bucket(self, bucket: str) -> None:
        self._aws("s3", "mb", f"s3://{bucket}")

    def remove_bucket(self, bucket: str) -> None:
        self._aws("s3", "rb", f"s3://{bucket}")

    def put(self, file: str, bucket: str, key: str) -> None:
        self._aws("s3", "cp", file, f"s3://{bucket}/{key}")

    def get(self, bucket: str, key: str, file: str) -> None:
        self._aws("s3", "cp", f"s3://{bucket}/{key}", file)

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        interval = f"bytes={offset}-{offset + length - 1}"
        where = ("--bucket", bucket, "--key", key, "--range", interval)
        self._aws("s3api", "get-object", *where, file)

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._aws("s3", "cp", f"s3://{bucket}/{key}", f"s3://{bucket}/{new_key}")

    def keys(self, bucket: str) -> list[str]:
        listing = self._aws("s3", "ls", "--recursive", f"s3://{bucket}").splitlines()
        # Date, time, size and key; a fixed width, as a key may begin with a space.
        return [line[31:] for line in listing]

    def remove(self, bucket: str, key: str) -> None:
        self._aws("s3", "rm", f"s3://{bucket}/{key}")

    def remove_all(self, bucket: str, _keys: list[str]) -> None:
        self._aws("s3", "rm", "--recursive", f"s3://{bucket}")

    def sync(self, directory: str, bucket: str) -> None:
        self._aws("s3", "sync", directory, f"s3://{bucket}")

    def presign(self, bucket: str, key: str, expires_s: int) -> str:
        url = self._aws("s3", "presign", f"s3://{bucket}/{key}", "--expires-in", str(expires_s))
        return url.strip()


if __name__ == "__main__":
    serve(AwsCli())
