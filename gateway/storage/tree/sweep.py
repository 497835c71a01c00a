"""What a start removes: uploads past their age, and sidecars that nothing refers to any more."""

from __future__ import annotations

import os

from gateway.errors import ClientError, GatewayError
from gateway.storage.faults import on_disk
from gateway.storage.tree.bucket import Bucket
from gateway.storage.tree.directories import names_in
from gateway.storage.tree.meta import SIDECARS
from gateway.storage.tree.paths import find_path
from gateway.storage.tree.publish import Target
from gateway.storage.tree.root import Root
from gateway.storage.tree.sidecars import read_sidecar, remove_sidecar
from gateway.storage.tree.uploads import Uploads


def sweep(root: Root, uploads: Uploads) -> int:
    """Look at every bucket; how many sidecars were removed. Raises InternalError, BusyError."""
    swept = 0
    for name in root.names():
        try:
            with root.bucket(name) as bucket:
                uploads.settle(bucket)
                uploads.expire(bucket)
                swept += _sweep_sidecars(bucket, uploads.eldest())
        except ClientError:  # it is no directory
            continue
    return swept


def _sweep_sidecars(bucket: Bucket, eldest: str) -> int:
    """Remove old sidecars whose key has another object now, or none; how many.

    A file that another program moved has left its key, and its sidecar: what is lost with it are
    the borders of its parts, or attributes that were too long for its own.

    `eldest` is the least name that may stay in any case: names begin with their time.

    Raises:
        InternalError.
    """
    with bucket.meta.existing(SIDECARS, bucket.name.encode()) as directory:
        if directory is None:
            return 0
        with on_disk("listing the sidecars in", bucket.meta.path):
            names = [os.fsdecode(name) for name in names_in(directory)]
    return sum(_sweep_one(bucket, name) for name in names if name < eldest)


def _sweep_one(bucket: Bucket, name: str) -> bool:
    """Under the lock of the key, whose writers may be about to refer to it."""
    described = read_sidecar(bucket.meta, bucket.name, name)
    where = find_path(described.key, bucket.meta_name) if described else None
    if described is None or where is None:
        return False
    target = Target(bucket, described.key, where)
    try:
        with target.held(), target.looked() as found:
            if found is not None and found.sidecar == name:
                return False
            remove_sidecar(bucket.meta, bucket.name, name)
    except GatewayError:  # in use, or out of reach: the next start asks again
        return False
    return True
