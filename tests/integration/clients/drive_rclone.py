"""rclone, from PyPI's wheel of its program."""

from __future__ import annotations

import os
from pathlib import Path

from driving import PART_BYTES, Gateway, home, program, run, serve


class Rclone:
    def __init__(self) -> None:
        gateway = Gateway.from_environment()
        cutoff = f"{PART_BYTES >> 20}Mi"
        self._argv = [
            program("rclone"),
            f"--s3-upload-cutoff={cutoff}",
            f"--s3-chunk-size={cutoff}",
        ]
        self._argv += ["--retries=1", "--low-level-retries=1"]
        settings = home() / "rclone.conf"
        settings.write_text(
            "[gw]\n"
            "type = s3\n"
            "provider = Other\n"
            f"endpoint = {gateway.endpoint}\n"
            f"access_key_id = {gateway.access_key}\n"
            f"secret_access_key = {gateway.secret_key}\n"
        )
        os.environ["RCLONE_CONFIG"] = str(settings)

    def _rclone(self, *words: str) -> bytes:
        return run([*self._argv, *words])

    def _copy(self, source: str, target: str) -> None:
        # Without the flag a missing key is an empty directory, copied with success.
        self._rclone("copyto", "--error-on-no-transfer", source, target)

    def make_bucket(self, bucket: str) -> None:
        self._rclone("mkdir", f"gw:{bucket}")

    def remove_bucket(self, bucket: str) -> None:
        self._rclone("rmdir", f"gw:{bucket}")

    def put(self, file: str, bucket: str, key: str) -> None:
        self._copy(file, f"gw:{bucket}/{key}")

    def get(self, bucket: str, key: str, file: str) -> None:
        self._copy(f"gw:{bucket}/{key}", file)

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        extent = ("--offset", str(offset), "--count", str(length))
        Path(file).write_bytes(self._rclone("cat", *extent, f"gw:{bucket}/{key}"))

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._copy(f"gw:{bucket}/{key}", f"gw:{bucket}/{new_key}")

    def keys(self, bucket: str) -> list[str]:
        listing = self._rclone("lsf", "--recursive", "--files-only", f"gw:{bucket}")
        return listing.decode().splitlines()

    def remove(self, bucket: str, key: str) -> None:
        self._rclone("deletefile", f"gw:{bucket}/{key}")

    def remove_all(self, bucket: str, _keys: list[str]) -> None:
        self._rclone("delete", f"gw:{bucket}")

    def sync(self, directory: str, bucket: str) -> None:
        self._rclone("sync", directory, f"gw:{bucket}")

    def check(self, directory: str, bucket: str) -> None:
        """Its own comparison: sizes, and every byte fetched again."""
        self._rclone("check", "--download", directory, f"gw:{bucket}")

    def sync_encrypted(self, directory: str, bucket: str) -> None:
        self._rclone("sync", directory, self._encrypted(bucket))

    def cryptcheck(self, directory: str, bucket: str) -> None:
        """Compare plain files with what their encryption's MD5 must be."""
        self._rclone("cryptcheck", directory, self._encrypted(bucket))

    def _encrypted(self, bucket: str) -> str:
        password = self._rclone("obscure", "correct horse battery staple").decode().strip()
        return f":crypt,remote='gw:{bucket}',password={password}:"


if __name__ == "__main__":
    serve(Rclone())
