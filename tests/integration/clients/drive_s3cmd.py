"""PyPI's s3cmd."""

from __future__ import annotations

from pathlib import Path

from driving import PART_BYTES, Gateway, home, program, run, serve


class S3cmd:
    def __init__(self) -> None:
        gateway = Gateway.from_environment()
        settings = home() / "s3cfg"
        settings.write_text(
            "[default]\n"
            f"access_key = {gateway.access_key}\n"
            f"secret_key = {gateway.secret_key}\n"
            f"host_base = {gateway.address}\n"
            f"host_bucket = {gateway.address}\n"  # no %(bucket)s: path addressing
            "use_https = False\n"
            f"bucket_location = {gateway.region}\n"
            "max_retries = 1\n"
            f"multipart_chunk_size_mb = {PART_BYTES >> 20}\n"
        )
        self._argv = [program("s3cmd"), "-c", str(settings), "--no-progress"]

    def _s3cmd(self, *words: str) -> str:
        return run([*self._argv, *words]).decode()

    def make_bucket(self, bucket: str) -> None:
        self._s3cmd("mb", f"s3://{bucket}")

    def remove_bucket(self, bucket: str) -> None:
        self._s3cmd("rb", f"s3://{bucket}")

    def put(self, file: str, bucket: str, key: str) -> None:
        self._s3cmd("put", file, f"s3://{bucket}/{key}")

    def get(self, bucket: str, key: str, file: str) -> None:
        self._s3cmd("get", f"s3://{bucket}/{key}", file)

    def get_range(self, bucket: str, key: str, file: str, offset: int, length: int) -> None:
        """It only resumes: Range: bytes=offset- for the rest of a file whose beginning is here."""
        whole = home() / "continued"
        whole.write_bytes(bytes(offset))
        self._s3cmd("get", "--continue", f"s3://{bucket}/{key}", str(whole))
        Path(file).write_bytes(whole.read_bytes()[offset : offset + length])

    def copy(self, bucket: str, key: str, new_key: str) -> None:
        self._s3cmd("cp", f"s3://{bucket}/{key}", f"s3://{bucket}/{new_key}")

    def keys(self, bucket: str) -> list[str]:
        listing = self._s3cmd("ls", "--recursive", f"s3://{bucket}").splitlines()
        return [line.partition(f"s3://{bucket}/")[2] for line in listing]

    def remove(self, bucket: str, key: str) -> None:
        self._s3cmd("rm", f"s3://{bucket}/{key}")

    def remove_all(self, bucket: str, _keys: list[str]) -> None:
        self._s3cmd("del", "--recursive", "--force", f"s3://{bucket}")

    def sync(self, directory: str, bucket: str) -> None:
        self._s3cmd("sync", f"{directory}/", f"s3://{bucket}/")


if __name__ == "__main__":
    serve(S3cmd())
