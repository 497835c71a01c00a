"""s3torchconnector's client, on AWS's Common Runtime; PyTorch itself isn't needed for it."""

from __future__ import annotations

from pathlib import Path

from driving import PART_BYTES, Gateway, serve
from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client


class S3TorchConnector:
    def __init__(self) -> None:
        gateway = Gateway.from_environment()
        self._s3 = MountpointS3Client(
            region=gateway.region,
            endpoint=gateway.endpoint,
            part_size=PART_BYTES,
            force_path_style=True,
            max_attempts=1,
            throughput_target_gbps=1.0,
        )

    def put(self, file: str, bucket: str, key: str) -> None:
        stream = self._s3.put_object(bucket, key)
        with open(file, "rb") as source:
            while piece := source.read(PART_BYTES):
                stream.write(piece)
        stream.close()

    def get(self, bucket: str, key: str, file: str) -> None:
        stream = self._s3.get_object(bucket, key)
        with open(file, "wb") as sink:
            sink.writelines(stream)

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        stream = self._s3.get_object(bucket, key, start=offset, end=offset + length)
        Path(file).write_bytes(b"".join(stream))

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._s3.copy_object(bucket, key, bucket, new_key)

    def keys(self, bucket: str) -> list[str]:
        return [entry.key for page in self._s3.list_objects(bucket) for entry in page.object_info]

    def remove(self, bucket: str, key: str) -> None:
        self._s3.delete_object(bucket, key)

    def remove_all(self, bucket: str, keys: list[str]) -> None:
        for key in keys:  # it has no request for several
            self._s3.delete_object(bucket, key)


if __name__ == "__main__":
    serve(S3TorchConnector())
