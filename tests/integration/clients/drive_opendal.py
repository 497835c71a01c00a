"""Apache OpenDAL's Python binding."""

from __future__ import annotations

import shutil
from pathlib import Path

from driving import PART_BYTES, Gateway, serve
from opendal import Operator


class OpenDal:
    def _bucket(self, bucket: str) -> Operator:
        gateway = Gateway.from_environment()
        return Operator(
            "s3",
            bucket=bucket,
            endpoint=gateway.endpoint,
            region=gateway.region,
            access_key_id=gateway.access_key,
            secret_access_key=gateway.secret_key,
        )

    def put(self, file: str, bucket: str, key: str) -> None:
        sink = self._bucket(bucket).open(key, "wb", chunk=PART_BYTES)
        with open(file, "rb") as source, sink:
            shutil.copyfileobj(source, sink, PART_BYTES)

    def get(self, bucket: str, key: str, file: str) -> None:
        Path(file).write_bytes(self._bucket(bucket).read(key))

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        data = self._bucket(bucket).read(key, offset=offset, size=length)
        Path(file).write_bytes(data)

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._bucket(bucket).copy(key, new_key)

    def keys(self, bucket: str) -> list[str]:
        return [entry.path for entry in self._bucket(bucket).list("", recursive=True)]

    def remove(self, bucket: str, key: str) -> None:
        self._bucket(bucket).delete(key)

    def remove_all(self, bucket: str, _keys: list[str]) -> None:
        self._bucket(bucket).delete("", recursive=True)


if __name__ == "__main__":
    serve(OpenDal())
