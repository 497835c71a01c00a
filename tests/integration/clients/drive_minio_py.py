"""minio-py."""

from __future__ import annotations

from pathlib import Path

from driving import PART_BYTES, CommandError, Gateway, serve
from minio import Minio
from minio.commonconfig import CopySource
from minio.deleteobjects import DeleteObject


class MinioPy:
    def __init__(self) -> None:
        gateway = Gateway.from_environment()
        self._s3 = Minio(
            gateway.address,
            access_key=gateway.access_key,
            secret_key=gateway.secret_key,
            secure=False,
        )

    def make_bucket(self, bucket: str) -> None:
        self._s3.make_bucket(bucket)

    def remove_bucket(self, bucket: str) -> None:
        self._s3.remove_bucket(bucket)

    def put(self, file: str, bucket: str, key: str) -> None:
        self._s3.fput_object(bucket, key, file, part_size=PART_BYTES)

    def get(self, bucket: str, key: str, file: str) -> None:
        self._s3.fget_object(bucket, key, file)

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        with self._s3.get_object(bucket, key, offset=offset, length=length) as reply:
            Path(file).write_bytes(reply.read())

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._s3.copy_object(bucket, new_key, CopySource(bucket, key))

    def keys(self, bucket: str) -> list[str]:
        return [entry.object_name for entry in self._s3.list_objects(bucket, recursive=True)]

    def remove(self, bucket: str, key: str) -> None:
        self._s3.remove_object(bucket, key)

    def remove_all(self, bucket: str, keys: list[str]) -> None:
        failed = list(self._s3.remove_objects(bucket, [DeleteObject(key) for key in keys]))
        if failed:
            raise CommandError(str(failed))


if __name__ == "__main__":
    serve(MinioPy())
