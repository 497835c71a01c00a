"""obstore, Rust's object_store: the client under delta-rs, Lance, DataFusion and Zarr."""

from __future__ import annotations

from pathlib import Path

import obstore
from driving import PART_BYTES, serve
from obstore.store import S3Store


class Obstore:
    def _store(self, bucket: str) -> S3Store:
        return S3Store(bucket, client_options={"allow_http": True}, retry_config={"max_retries": 0})

    def put(self, file: str, bucket: str, key: str) -> None:
        obstore.put(self._store(bucket), key, Path(file), chunk_size=PART_BYTES)

    def create(self, file: str, bucket: str, key: str) -> None:
        """Put it only where nothing is: If-None-Match: *."""
        obstore.put(self._store(bucket), key, Path(file), mode="create", use_multipart=False)

    def update(self, file: str, bucket: str, key: str, etag: str) -> None:
        """Put it only over the object of that ETag: If-Match."""
        obstore.put(self._store(bucket), key, Path(file), mode={"e_tag": etag}, use_multipart=False)

    def etag(self, bucket: str, key: str) -> str:
        return obstore.head(self._store(bucket), key)["e_tag"]

    def get(self, bucket: str, key: str, file: str) -> None:
        Path(file).write_bytes(obstore.get(self._store(bucket), key).bytes())

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        data = obstore.get_range(self._store(bucket), key, start=offset, length=length)
        Path(file).write_bytes(data)

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        obstore.copy(self._store(bucket), key, new_key)

    def keys(self, bucket: str) -> list[str]:
        pages = obstore.list(self._store(bucket))
        return [entry["path"] for page in pages for entry in page]

    def remove(self, bucket: str, key: str) -> None:
        obstore.delete(self._store(bucket), key)

    def remove_all(self, bucket: str, keys: list[str]) -> None:
        obstore.delete(self._store(bucket), keys)


if __name__ == "__main__":
    serve(Obstore())
