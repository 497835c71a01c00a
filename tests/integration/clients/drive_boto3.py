"""boto3, with its transfer manager's defaults but for the part size."""

from __future__ import annotations

from pathlib import Path

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from driving import PART_BYTES, serve

PARTS = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)


class Boto3:
    def __init__(self) -> None:
        # No retries: they would hide faults.
        settings = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0})
        self._s3 = boto3.client("s3", config=settings)

    def make_bucket(self, bucket: str) -> None:
        self._s3.create_bucket(Bucket=bucket)

    def remove_bucket(self, bucket: str) -> None:
        self._s3.delete_bucket(Bucket=bucket)

    def put(self, file: str, bucket: str, key: str) -> None:
        self._s3.upload_file(file, bucket, key, Config=PARTS)

    def get(self, bucket: str, key: str, file: str) -> None:
        self._s3.download_file(bucket, key, file, Config=PARTS)

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        interval = f"bytes={offset}-{offset + length - 1}"
        reply = self._s3.get_object(Bucket=bucket, Key=key, Range=interval)
        Path(file).write_bytes(reply["Body"].read())

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._s3.copy({"Bucket": bucket, "Key": key}, bucket, new_key, Config=PARTS)

    def keys(self, bucket: str) -> list[str]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def remove(self, bucket: str, key: str) -> None:
        self._s3.delete_object(Bucket=bucket, Key=key)

    def remove_all(self, bucket: str, keys: list[str]) -> None:
        listed = {"Objects": [{"Key": key} for key in keys]}
        self._s3.delete_objects(Bucket=bucket, Delete=listed)


if __name__ == "__main__":
    serve(Boto3())
