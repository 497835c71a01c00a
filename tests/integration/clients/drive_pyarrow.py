"""pyarrow's S3 file system, on the AWS SDK for C++; parts of its own 10 MiB."""

from __future__ import annotations

import shutil
from pathlib import Path

from driving import Gateway, serve
from pyarrow.fs import FileSelector, FileType, S3FileSystem

BLOCK_BYTES = 1 << 20


class PyArrow:
    def __init__(self) -> None:
        gateway = Gateway.from_environment()
        self._fs = S3FileSystem(
            access_key=gateway.access_key,
            secret_key=gateway.secret_key,
            endpoint_override=gateway.address,
            scheme="http",
            region=gateway.region,
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )

    def make_bucket(self, bucket: str) -> None:
        self._fs.create_dir(bucket)

    def remove_bucket(self, bucket: str) -> None:
        self._fs.delete_dir(bucket)

    def put(self, file: str, bucket: str, key: str) -> None:
        with open(file, "rb") as source, self._fs.open_output_stream(f"{bucket}/{key}") as sink:
            shutil.copyfileobj(source, sink, BLOCK_BYTES)

    def get(self, bucket: str, key: str, file: str) -> None:
        with self._fs.open_input_stream(f"{bucket}/{key}") as source, open(file, "wb") as sink:
            shutil.copyfileobj(source, sink, BLOCK_BYTES)

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        with self._fs.open_input_file(f"{bucket}/{key}") as source:
            Path(file).write_bytes(source.read_at(length, offset))

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._fs.copy_file(f"{bucket}/{key}", f"{bucket}/{new_key}")

    def keys(self, bucket: str) -> list[str]:
        found = self._fs.get_file_info(FileSelector(bucket, recursive=True))
        files = [entry.path for entry in found if entry.type is FileType.File]
        return [path.removeprefix(f"{bucket}/") for path in files]

    def remove(self, bucket: str, key: str) -> None:
        self._fs.delete_file(f"{bucket}/{key}")

    def remove_all(self, bucket: str, _keys: list[str]) -> None:
        self._fs.delete_dir_contents(bucket)


if __name__ == "__main__":
    serve(PyArrow())
