"""What an object's extended attribute has no room for: the parts of an upload, long attributes.

A sidecar is written before the attribute that names it, and so before the object's own name. That
of a multipart object is also what a repeated Complete is answered from, so it outlives the object;
one that its key no longer refers to goes when it is as old as uploads may get.
"""

from __future__ import annotations

import json

from gateway.storage.faults import on_disk
from gateway.storage.port import ObjectInfo
from gateway.storage.rows import decode_result, encode_result
from gateway.storage.rules import fresh_id
from gateway.storage.tree.directories import read_small_file, remove_file
from gateway.storage.tree.meta import SIDECARS, Meta

_OF_PUT = "-put"


def fresh_sidecar(now_ns: int) -> str:
    """A name for the sidecar of an object that was put whole; it begins with its time."""
    return fresh_id(now_ns) + _OF_PUT


def is_of_upload(name: str) -> bool:
    """Whether a sidecar has the name of an upload, its id."""
    return bool(name) and not name.endswith(_OF_PUT)


def write_sidecar(meta: Meta, name: str, info: ObjectInfo) -> None:
    """Keep all of an object's description. Raises InternalError."""
    text = json.dumps((info.key, encode_result(info)), ensure_ascii=False)
    with meta.made(SIDECARS, info.bucket.encode()) as directory:
        meta.staging.write(directory, name.encode(), text.encode())


def read_sidecar(meta: Meta, bucket: str, name: str) -> ObjectInfo | None:
    """None where it is gone: the object is then what its attribute says alone.

    Raises InternalError.
    """
    with meta.existing(SIDECARS, bucket.encode()) as directory:
        data = None if directory is None else read_small_file(directory, name.encode(), meta.path)
    if data is None:
        return None
    key, text = json.loads(data)
    return decode_result(bucket, key, text)


def remove_sidecar(meta: Meta, bucket: str, name: str) -> None:
    """Raises InternalError."""
    with meta.existing(SIDECARS, bucket.encode()) as directory:
        if directory is not None:
            with on_disk("removing a file in", meta.path):
                remove_file(directory, name.encode())
