"""An fsspec filesystem: pandas, pyarrow, zarr and others read ``s3rdma://bucket/key`` by it.

::

    pandas.read_csv("s3rdma://bucket/table.csv", storage_options={"endpoint_url": "http://gw:9000"})

Endpoint, keys and region are botocore's where they are not given (``AWS_ENDPOINT_URL`` and its
chain). A read of a range lands in the reader's own buffer, where it brings one (``readinto``);
what is written is kept in a temporary file, and becomes an object when the file is closed.

https://filesystem-spec.readthedocs.io/en/latest/developer.html
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from botocore.credentials import Credentials
from fsspec.spec import AbstractFileSystem
from typing_extensions import Buffer

from gateway.client.errors import S3Error
from gateway.client.models import ObjectHead
from gateway.client.sync import SyncClient, finally_do
from gateway.client.trust import Verify
from gateway.config.client import ClientLimits

Info = dict[str, Any]
"""fsspec's: name, size, type ("file" or "directory"), and what else there is to know."""

_SPOOLED_BYTES = 16 * 1024 * 1024
"""What is written stays in memory up to this, and goes to a temporary file beyond."""

_READ_AHEAD_BYTES = 1024 * 1024


class S3RdmaFileSystem(AbstractFileSystem):  # type: ignore[misc] # fsspec is untyped
    """Buckets as top directories, keys as paths below them.

    Args:
        endpoint_url: ``http://HOST:PORT``; None takes ``AWS_ENDPOINT_URL``.
        key / secret / token: of the credentials; None takes botocore's chain.
        region_name / verify / rdma / device / limits: as for `Client`.
        options: fsspec's own.

    Raises:
        ValueError: no endpoint, or a malformed option.
        CredentialsError: there is nothing to sign with.
    """

    protocol = "s3rdma"
    root_marker = ""

    def __init__(
        self,
        endpoint_url: str | None = None,
        key: str | None = None,
        secret: str | None = None,
        token: str | None = None,
        *,
        region_name: str | None = None,
        verify: Verify = None,
        rdma: str = "auto",
        device: str = "",
        limits: ClientLimits | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        endpoint = endpoint_url or os.environ.get("AWS_ENDPOINT_URL", "")
        credentials = Credentials(key, secret, token) if key and secret else None
        self.client = SyncClient(
            endpoint_url=endpoint,
            region_name=region_name,
            credentials=credentials,
            verify=verify,
            rdma=rdma,
            device=device,
            limits=limits or ClientLimits(),
        )
        self.client.__enter__()
        self._ended = finally_do(self, partial(self.client.__exit__, None, None, None))

    def close(self) -> None:
        """Disconnect. It happens by itself when nobody uses the filesystem any more."""
        self._ended()

    @property
    def fsid(self) -> str:
        return "s3rdma"

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        """What is directly below a path; a file is its own listing."""
        bucket, key = _split(self._strip_protocol(path))
        if not bucket:
            rows = [_directory(one.name) for one in self.client.list_buckets()]
        else:
            prefix = f"{key}/" if key else ""
            rows = self._listed(bucket, prefix)
            if not rows and key:
                rows = [self._file_info(bucket, key)]
        return rows if detail else [row["name"] for row in rows]

    def info(self, path: str, **_options: Any) -> Info:
        path = self._strip_protocol(path)
        bucket, key = _split(path)
        if not bucket:
            return _directory("")
        try:
            return self._file_info(bucket, key) if key else self._bucket_info(bucket)
        except FileNotFoundError:
            if key and self._listed(bucket, f"{key}/"):
                return _directory(path)
            raise

    def created(self, path: str) -> str:
        return str(self.info(path).get("LastModified", ""))

    modified = created

    def mkdir(self, path: str, create_parents: bool = True, **_options: Any) -> None:
        """Make a bucket. Directories in it are there as soon as they have files.

        In S3's first region making one's own bucket again is no error, so it is looked for first.
        """
        bucket, key = _split(self._strip_protocol(path))
        if bucket and not key:
            with _as_os_errors(path):
                if any(there.name == bucket for there in self.client.list_buckets()):
                    raise FileExistsError(f"s3rdma://{bucket}")
                self.client.create_bucket(bucket)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        try:
            self.mkdir(path)
        except FileExistsError:
            if not exist_ok:
                raise

    def rmdir(self, path: str) -> None:
        """Nothing: a directory is gone with its last file."""

    def rm_file(self, path: str) -> None:
        with _as_os_errors(path):
            self.client.delete_object(*_split(self._strip_protocol(path)))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for one in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            if self.isfile(one):
                self.rm_file(one)

    def cp_file(self, path1: str, path2: str, **_options: Any) -> None:
        if self.isdir(path1):
            return
        source, target = (_split(self._strip_protocol(path)) for path in (path1, path2))
        with _as_os_errors(path1):
            self.client.copy_object(source, target)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_options: Any
    ) -> bytes:
        info = self._required_file(path)
        first, last, _ = slice(start, end).indices(info["size"])
        buffer = bytearray(max(0, last - first))
        self._read_into(path, buffer, first)
        return bytes(buffer)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_options: Any) -> None:
        if mode == "create" and self.exists(path):
            raise FileExistsError(path)
        with _as_os_errors(path):
            self.client.put_from(*_split(self._strip_protocol(path)), value)

    def get_file(self, rpath: str, lpath: Any, **_options: Any) -> None:
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        if hasattr(lpath, "write"):
            lpath.write(self.cat_file(rpath))
            return
        os.makedirs(os.path.dirname(lpath) or ".", exist_ok=True)
        with _as_os_errors(rpath):
            self.client.get_file(*_split(self._strip_protocol(rpath)), lpath)

    def put_file(self, lpath: str, rpath: str, mode: str = "overwrite", **_options: Any) -> None:
        if os.path.isdir(lpath):
            return
        if mode == "create" and self.exists(rpath):
            raise FileExistsError(rpath)
        with _as_os_errors(rpath):
            self.client.put_file(*_split(self._strip_protocol(rpath)), lpath)

    def _open(self, path: str, mode: str = "rb", **_options: Any) -> io.BufferedIOBase:
        path = self._strip_protocol(path)
        match mode:
            case "rb":
                raw = Reader(self, path, self._required_file(path)["size"])
                return io.BufferedReader(raw, _READ_AHEAD_BYTES)
            case "wb" | "xb":
                if mode == "xb" and self.exists(path):
                    raise FileExistsError(path)
                return Writer(self, path)
        raise ValueError(f"mode {mode!r}: an object can be read or written, and not changed")

    def _read_into(self, path: str, buffer: Buffer, offset_bytes: int) -> None:
        """Fill the buffer from the object's bytes at an offset."""
        view = memoryview(buffer)
        with _as_os_errors(path):
            if view.nbytes:
                bucket, key = _split(self._strip_protocol(path))
                self.client.get_into(bucket, key, view, offset_bytes, view.nbytes)

    def _listed(self, bucket: str, prefix: str) -> list[Info]:
        rows: list[Info] = []
        token: str | None = None
        while True:
            with _as_os_errors(bucket):
                page = self.client.list_objects(bucket, prefix, delimiter="/", token=token)
            rows += [_directory(f"{bucket}/{name.rstrip('/')}") for name in page.prefixes]
            rows += [
                _file(f"{bucket}/{one.key}", one.size_bytes, one.etag, one.last_modified)
                for one in page.objects
                if one.key != prefix
            ]
            token = page.next_token
            if token is None:
                return rows

    def _file_info(self, bucket: str, key: str) -> Info:
        with _as_os_errors(f"{bucket}/{key}"):
            head: ObjectHead = self.client.head(bucket, key)
        return _file(f"{bucket}/{key}", head.size_bytes, head.etag, head.last_modified)

    def _bucket_info(self, bucket: str) -> Info:
        with _as_os_errors(bucket):
            self.client.list_objects(bucket)
        return _directory(bucket)

    def _required_file(self, path: str) -> Info:
        info = self.info(path)
        if info["type"] != "file":
            raise IsADirectoryError(path)
        return info


class Reader(io.RawIOBase):
    """An object, read at any place straight into the caller's buffer."""

    def __init__(self, fs: S3RdmaFileSystem, path: str, size_bytes: int) -> None:
        super().__init__()
        self._fs, self._path = fs, path
        self._size_bytes = size_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = (0, self._position, self._size_bytes)[whence]
        if origin + offset < 0:
            raise ValueError("a position before the beginning")
        self._position = origin + offset
        return self._position

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._size_bytes - self._position))
        self._fs._read_into(self._path, view[:count], self._position)
        self._position += count
        return count


class Writer(io.BufferedIOBase):
    """What is written to it is the object, once it is closed."""

    def __init__(self, fs: S3RdmaFileSystem, path: str) -> None:
        super().__init__()
        self._fs, self._path = fs, path
        self._spool = tempfile.SpooledTemporaryFile(_SPOOLED_BYTES)  # noqa: SIM115 - close ends it

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        return self._spool.write(data)

    def tell(self) -> int:
        return self._spool.tell()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            self._spool.close()  # a body that failed is no object
            super().close()
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._store()
        finally:
            self._spool.close()
            super().close()

    def _store(self) -> None:
        bucket, key = _split(self._path)
        self._spool.rollover()
        self._spool.flush()
        with _as_os_errors(self._path):
            self._fs.client.put_file(bucket, key, f"/proc/self/fd/{self._spool.fileno()}")


def _split(path: str) -> tuple[str, str]:
    """(bucket, key) of a path without its protocol."""
    bucket, _, key = path.lstrip("/").partition("/")
    return bucket, key


def _directory(name: str) -> Info:
    return {"name": name, "size": 0, "type": "directory"}


def _file(name: str, size_bytes: int, etag: str, last_modified: str) -> Info:
    return {
        "name": name,
        "size": size_bytes,
        "type": "file",
        "ETag": etag,
        "LastModified": last_modified,
    }


@contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    """S3's errors as those that users of files expect."""
    try:
        yield
    except S3Error as error:
        match error.status:
            case 404:
                raise FileNotFoundError(path) from error
            case 403:
                raise PermissionError(f"{path}: {error}") from error
            case 409 if error.code.startswith("Bucket"):
                raise FileExistsError(path) from error
        raise OSError(f"{path}: {error}") from error
