"""Whether a bucket holds objects, and its removal where it doesn't."""

from __future__ import annotations

import errno
import os

from gateway.errors import ClientError, S3Code
from gateway.storage import rules
from gateway.storage.faults import disk_fault, on_disk
from gateway.storage.tree.bucket import Bucket
from gateway.storage.tree.directories import DIRECTORY, closing
from gateway.storage.tree.walk import holds_object


def remove_if_empty(bucket: Bucket) -> None:
    """Remove a bucket's directory with the empty ones in it; rmdir(2) has the last word.

    Raises:
        ClientError: BucketNotEmpty; also where what is left is no object. AccessDenied: a mount.
        InternalError.
    """
    if holds_object(bucket, b""):
        raise rules.bucket_not_empty(bucket.name)
    _remove_empty(bucket, ())
    try:
        os.rmdir(bucket.name, dir_fd=bucket.root)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise ClientError(
                S3Code.BUCKET_NOT_EMPTY,
                "Its directory holds what is no object (links, pipes, names that are not UTF-8).",
                details={"BucketName": bucket.name},
            ) from error
        if error.errno == errno.EBUSY:
            raise ClientError(
                S3Code.ACCESS_DENIED, "The bucket is a mount point: unmount it instead."
            ) from error
        raise disk_fault("removing", bucket.path, error) from error


def _remove_empty(bucket: Bucket, names: tuple[bytes, ...]) -> None:
    """All empty directories below, the deepest first, whoever made them."""
    fd = bucket.open(b"/".join(names) or b".", DIRECTORY)
    if fd is None:
        return
    with closing(fd), on_disk("listing", bucket.path), os.scandir(fd) as entries:
        children = [
            os.fsencode(each.name) for each in entries if each.is_dir(follow_symlinks=False)
        ]
    for name in children:
        _remove_empty(bucket, (*names, name))
        bucket.remove_directory((*names, name), ours=False)
