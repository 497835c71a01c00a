"""s3fs: the fsspec file system of pandas, Dask and many others, on aiobotocore."""

from __future__ import annotations

from pathlib import Path

from driving import PART_BYTES, serve
from s3fs import S3FileSystem


class S3fs:
    def __init__(self) -> None:
        # Listings would be cached, and other clients' work not be seen.
        self._fs = S3FileSystem(use_listings_cache=False)

    def make_bucket(self, bucket: str) -> None:
        self._fs.mkdir(bucket)

    def remove_bucket(self, bucket: str) -> None:
        self._fs.rmdir(bucket)

    def put(self, file: str, bucket: str, key: str) -> None:
        self._fs.put_file(file, f"{bucket}/{key}", chunksize=PART_BYTES)

    def get(self, bucket: str, key: str, file: str) -> None:
        self._fs.get_file(f"{bucket}/{key}", file)

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        data = self._fs.cat_file(f"{bucket}/{key}", start=offset, end=offset + length)
        Path(file).write_bytes(data)

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._fs.cp_file(f"{bucket}/{key}", f"{bucket}/{new_key}")

    def keys(self, bucket: str) -> list[str]:
        return [name.removeprefix(f"{bucket}/") for name in self._fs.find(bucket)]

    def remove(self, bucket: str, key: str) -> None:
        self._fs.rm_file(f"{bucket}/{key}")

    def remove_all(self, bucket: str, keys: list[str]) -> None:
        self._fs.rm([f"{bucket}/{key}" for key in keys])


if __name__ == "__main__":
    serve(S3fs())
