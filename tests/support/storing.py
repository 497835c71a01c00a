"""Short hands for tests that put objects straight into a storage."""

from collections.abc import Iterable, Sequence
from hashlib import md5
from typing import Any

import pytest

from gateway.errors import ClientError, S3Code
from gateway.storage.port import (
    BucketInfo,
    ObjectAttributes,
    ObjectDraft,
    ObjectInfo,
    PartInfo,
    Staged,
    Storage,
)
from gateway.wire.conditional import NO_CONDITIONS, Conditions

MAX_STAGED = 64
"""`store.max_staged` of the storages under the contract."""


def raises(code: S3Code) -> pytest.RaisesExc[ClientError]:
    """As pytest.raises, for S3's code."""
    return pytest.RaisesExc(ClientError, check=lambda error: error.code is code)


def new_bucket(name: str, region: str = "us-east-1", **configured: Any) -> BucketInfo:
    """For `create_bucket`, which sets the time itself."""
    return BucketInfo(name, 0, region, **configured)


def etag(data: bytes) -> str:
    return md5(data).hexdigest()


def draft(data: bytes, attributes: ObjectAttributes | None = None) -> ObjectDraft:
    return ObjectDraft(len(data), etag(data), attributes or ObjectAttributes())


async def stage(storage: Storage, data: bytes, bucket: str = "bucket") -> Staged:
    staged = await storage.stage(bucket, len(data))
    try:
        await staged.write(data)
    except BaseException:
        await staged.discard()
        raise
    return staged


async def put(
    storage: Storage,
    key: str,
    data: bytes = b"",
    *,
    bucket: str = "bucket",
    conditions: Conditions = NO_CONDITIONS,
) -> ObjectInfo:
    staged = await stage(storage, data, bucket)
    return await storage.commit_object(staged, bucket, key, draft(data), conditions)


async def get(storage: Storage, key: str, *, bucket: str = "bucket") -> bytes:
    reader = await storage.open_object(bucket, key, None)
    try:
        return await reader.read(0, reader.info.size_bytes)
    finally:
        await reader.close()


def holdable(storage: Storage, keys: Iterable[str]) -> set[str]:
    """As many of the keys as the storage can hold beside each other (Capabilities.any_key)."""
    if storage.capabilities.any_key:
        return set(keys)
    kept: set[str] = set()
    for key in sorted(keys):
        segments = key.removesuffix("/").split("/")
        is_path = not {"", ".", ".."}.intersection(segments) and "\0" not in key
        below = any(key.startswith(f"{other}/") for other in kept)
        above = any(other.startswith(f"{key}/") for other in kept)
        if is_path and not below and not above:
            kept.add(key)
    return kept


async def initiate(storage: Storage, key: str, attributes: ObjectAttributes | None = None) -> str:
    info = await storage.create_upload("bucket", key, attributes or ObjectAttributes(), None, None)
    return info.upload_id


async def put_part(
    storage: Storage, key: str, upload_id: str, number: int, data: bytes
) -> PartInfo:
    staged = await stage(storage, data)
    return await storage.commit_part(staged, "bucket", key, upload_id, number, draft(data))


def whole(parts: Sequence[PartInfo]) -> ObjectDraft:
    """The draft of the object that these parts make."""
    return ObjectDraft(sum(part.size_bytes for part in parts), f"composed-{len(parts)}")


async def complete(
    storage: Storage,
    key: str,
    upload_id: str,
    parts: Sequence[PartInfo],
    conditions: Conditions = NO_CONDITIONS,
) -> ObjectInfo:
    return await storage.complete_upload("bucket", key, upload_id, parts, whole(parts), conditions)
