"""Runs one change of a store again and again, and stops it, or fails it, at each of its calls.

A program that has the shim preloaded and everything imported; each job is a line of JSON on its
standard input, each answer one on its output. The store is opened in forked children only, so that
an attempt costs a fork and no start of Python.

Each attempt starts from a copy of the same store, arms the shim when the store is open, makes the
change, and closes it. Then, in other children, the store is opened again and looked at.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import hashlib
import json
import os
import shutil
import sqlite3
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bodies import BytesBody
from crash_driver import TREE, Driver
from power_cut import Disk
from s3_desk import Desk

from gateway.config import Durability, StoreConfig
from gateway.errors import GatewayError
from gateway.s3 import complete_upload
from gateway.storage import files
from gateway.storage.port import ListQuery, VersionQuery
from gateway.storage.store import Store

KILL, FAIL_ONCE, FAIL_ON, SHORTEN = 1, 2, 3, 4
CHANGES, LOOKS = 1, 2

BUCKET, KEY = "bucket", "key"
OLD, NEW = b"old" * 40_000, b"new!" * 40_000
SMALL = b"few" * 500


def shim() -> Any:
    return ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class Change:
    """What a client asks for, and what has to be there before."""

    prepare: Callable[[Desk], Awaitable[Any]]
    act: Callable[[Desk], Awaitable[Any]]


async def put(desk: Desk, data: bytes, key: str = KEY) -> None:
    await desk.ask("PutObject", BytesBody(data), Bucket=BUCKET, Key=key)


async def upload(desk: Desk, parts: int) -> str:
    """Begin an upload of KEY, with so many parts."""
    made = await desk.ask("CreateMultipartUpload", Bucket=BUCKET, Key=KEY)
    for number in range(1, parts + 1):
        await put_part(desk, made["UploadId"], number, b"%03d" % number * 30_000)
    return str(made["UploadId"])


async def put_part(desk: Desk, upload_id: str, number: int, data: bytes) -> None:
    where = {"Bucket": BUCKET, "Key": KEY, "UploadId": upload_id, "PartNumber": number}
    await desk.ask("UploadPart", BytesBody(data), **where)


async def the_upload(desk: Desk) -> dict[str, Any]:
    """The one that is in progress: its arguments."""
    (found,) = (await desk.ask("ListMultipartUploads", Bucket=BUCKET))["Uploads"]
    return {"Bucket": BUCKET, "Key": KEY, "UploadId": found["UploadId"]}


async def complete(desk: Desk, parts: int) -> None:
    where = await the_upload(desk)
    listed = (await desk.ask("ListParts", **where))["Parts"][:parts]
    chosen = [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in listed]
    await desk.ask("CompleteMultipartUpload", **where, MultipartUpload={"Parts": chosen})


async def prepare_multipart(desk: Desk) -> None:
    await upload(desk, 3)
    await complete(desk, 3)


async def prepare_upload(desk: Desk) -> None:
    await put(desk, OLD)
    await upload(desk, 2)


async def prepare_copy(desk: Desk) -> None:
    await put(desk, OLD)
    await put(desk, NEW, "source")


async def prepare_versions(desk: Desk) -> None:
    enabled = {"Status": "Enabled"}
    await desk.ask("PutBucketVersioning", Bucket=BUCKET, VersioningConfiguration=enabled)
    await put(desk, OLD)
    await put(desk, NEW)


async def copy(desk: Desk) -> None:
    await desk.ask("CopyObject", Bucket=BUCKET, Key=KEY, CopySource=f"{BUCKET}/source")


async def delete(desk: Desk) -> None:
    await desk.ask("DeleteObject", Bucket=BUCKET, Key=KEY)


async def replace_part(desk: Desk) -> None:
    where = await the_upload(desk)
    await put_part(desk, where["UploadId"], 2, NEW)


async def abort(desk: Desk) -> None:
    await desk.ask("AbortMultipartUpload", **await the_upload(desk))


CHANGES_BY_NAME = {
    "put": Change(lambda desk: put(desk, OLD), lambda desk: put(desk, NEW)),
    "put-small": Change(lambda desk: put(desk, OLD), lambda desk: put(desk, SMALL)),
    "put-over-small": Change(lambda desk: put(desk, SMALL), lambda desk: put(desk, NEW)),
    "put-part": Change(prepare_upload, replace_part),
    "complete": Change(prepare_upload, lambda desk: complete(desk, 1)),
    "copy": Change(prepare_copy, copy),
    "delete": Change(lambda desk: put(desk, OLD), delete),
    "delete-multipart": Change(prepare_multipart, delete),
    "delete-versioned": Change(prepare_versions, delete),
    "abort": Change(prepare_upload, abort),
}


BELOW = "in/directories/key"
OF_THE_TREE = {
    name: CHANGES_BY_NAME[name]
    for name in ("put", "put-part", "complete", "copy", "delete", "delete-multipart", "abort")
} | {
    "put-below": Change(lambda desk: put(desk, OLD), lambda desk: put(desk, NEW, BELOW)),
    "delete-below": Change(
        lambda desk: put(desk, OLD, BELOW),
        lambda desk: desk.ask("DeleteObject", Bucket=BUCKET, Key=BELOW),
    ),
}
"""It keeps no versions and knows no small objects, but makes and removes directories."""


def open_store(root: Path) -> Store:
    return Store(StoreConfig(root=root, durability=Durability.FULL, io_threads=2))


# What a store holds


async def look(driver: Driver, root: Path) -> dict[str, Any]:
    """Everything a client can see, read to the last byte; and what nothing refers to."""
    store = driver.open(root)
    await store.start()
    await driver.settle(store)
    try:
        versions = (await store.list_versions(VersionQuery(BUCKET))).versions
        objects = (await store.list_objects(ListQuery(BUCKET))).objects
        seen = [
            [
                info.key,
                info.etag,
                info.latest,
                None if info.delete_marker else await digest(store, info.key, info.version_id),
            ]
            for info in versions
        ]
        uploads = (await store.list_uploads(BUCKET, "", "", "", "", 100)).uploads
        parts = [
            [
                part.etag
                for part in (await store.list_parts(BUCKET, up.key, up.upload_id, 0, 100))[0]
            ]
            for up in uploads
        ]
    finally:
        await store.stop()
    return {
        "state": [seen, [[info.key, info.etag] for info in objects], parts],
        "leftovers": driver.leftovers(root),
    }


async def digest(store: Store, key: str, version_id: str) -> str:
    reader = await store.open_object(BUCKET, key, version_id)
    try:
        return hashlib.sha256(await reader.read(0, reader.info.size_bytes)).hexdigest()
    finally:
        await reader.close()


def leftovers(root: Path) -> list[str]:
    """Files that no row names, and names without a file."""
    with sqlite3.connect(root / "catalog.db") as connection:
        named = {file for (file,) in connection.execute("SELECT file FROM pieces") if file}
    connection.close()
    found = {path.name for path in (*root.glob("objects/*/*"), *root.glob("staging/*"))}
    return sorted(found ^ named)


def open_files(root: Path) -> list[str]:
    """Data files that this process holds open, named or not."""
    links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists()]
    return [link for link in links if link.startswith((f"{root}/objects", f"{root}/staging"))]


# Attempts


async def prepare(driver: Driver, root: Path, change: Change) -> None:
    store = driver.open(root)
    await store.start()
    desk = Desk(store)
    await desk.ask("CreateBucket", Bucket=BUCKET)
    await change.prepare(desk)
    await store.stop()


async def attempt(
    tell: Callable[[dict[str, Any]], None],
    driver: Driver,
    root: Path,
    change: Change,
    *,
    arm: tuple[int, int, int, int],
    log: Path | None,
) -> None:
    """Make the change; tell how it ended before anything else happens, then close the store."""
    shim().shim_watch(os.fsencode(root), None if log is None else os.fsencode(log))
    store = driver.open(root)
    await store.start()
    await driver.settle(store)
    shim().shim_arm(*arm)
    try:
        await change.act(Desk(store))
        tell({"outcome": "acknowledged"})
    except GatewayError as error:
        tell({"outcome": "refused", "error": getattr(error, "cause", error.message)})
    if arm[0] == KILL:
        await store.stop()
        tell({"calls": shim().shim_disarm()})
        return
    await driver.settle(store)
    tell({"calls": shim().shim_disarm(), "open_files": driver.open_files(root)})
    await store.stop()


async def settle(store: Store) -> None:
    """Wait until what was to be removed was tried."""
    await store.swept()
    await asyncio.wrap_future(store._removals.submit(int))


DRIVERS = {"store": Driver(open_store, leftovers, settle, open_files), "tree": TREE}


def in_child(work: Callable[[Callable[[dict[str, Any]], None]], Coroutine[Any, Any, None]]) -> Any:
    """All that `work` told, as one dictionary, with how its process ended under "status"."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            asyncio.run(work(lambda told: _tell(writing, told)))
            status = 0
        except BaseException:  # noqa: BLE001 - this process ends here, whatever it was
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told: dict[str, Any] = {}
        for line in pipe:
            told |= json.loads(line)
    return told | {"status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


def _tell(fd: int, told: dict[str, Any]) -> None:
    os.write(fd, json.dumps(told).encode() + b"\n")


def looked_at(driver: Driver, root: Path) -> Any:
    async def work(tell: Callable[[dict[str, Any]], None]) -> None:
        tell(await look(driver, root))

    return in_child(work)


def attempted(scene: Scene, root: Path, arm: tuple[int, int, int, int], log: Path | None) -> Any:
    return in_child(lambda tell: attempt(tell, scene.driver, root, scene.change, arm=arm, log=log))


class Scene:
    """A directory with the store as it is before the change, and a place for copies of it."""

    def __init__(self, driver: Driver, directory: Path, name: str) -> None:
        self.driver = driver
        self._base = directory / "base"
        self._directory = directory
        self.change = (CHANGES_BY_NAME | OF_THE_TREE)[name]

        async def make(_tell: Callable[[dict[str, Any]], None]) -> None:
            await prepare(driver, self._base, self.change)

        assert in_child(make)["status"] == 0

    def copy(self, name: str = "copy") -> Path:
        target = self._directory / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self._base, target)
        return target

    def empty(self, name: str) -> Path:
        target = self._directory / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(mode=0o700)
        return target

    def ends(self) -> dict[str, Any]:
        """What is seen before the change, and after it."""
        before, root = looked_at(self.driver, self.copy()), self.copy()
        done = attempted(self, root, (0, 0, 0, 0), None)
        assert done["outcome"] == "acknowledged"
        return {"before": before, "after": looked_at(self.driver, root)}


def stopped(scene: Scene, directory: Path) -> Iterator[dict[str, Any]]:
    """Killed at each call that changes something: what is seen then, and after a power cut, too."""
    log, call = directory / "log", 0
    known: dict[bytes, Any] = {}  # what is seen on a disk, by what it holds
    while True:
        call += 1
        root = scene.copy()
        log.unlink(missing_ok=True)
        disk = Disk(root)
        told = attempted(scene, root, (KILL, call, 0, CHANGES), log)
        if told["status"] == 0:
            return
        disk.replay(log)
        seen = {"killed": looked_at(scene.driver, root)}
        for kept in ("nothing", "names", "bytes"):
            image = scene.empty("image")
            held = disk.image(image, names=kept == "names", data=kept == "bytes")
            if held not in known:
                known[held] = looked_at(scene.driver, image)
            seen[f"power cut, {kept} kept"] = known[held]
        yield {"call": call, "told": told, "seen": seen}


def failed(scene: Scene, action: int, error: int, classes: int) -> Iterator[dict[str, Any]]:
    """Failed at each call: what was told, and what is seen after a restart."""
    call = 0
    while True:
        call += 1
        root = scene.copy()
        told = attempted(scene, root, (action, call, error, classes), None)
        if told.get("calls", call) < call:
            return
        yield {"call": call, "told": told, "seen": looked_at(scene.driver, root)}


def run(job: dict[str, Any]) -> dict[str, Any]:
    directory = Path(job["directory"])
    scene = Scene(DRIVERS[job["driver"]], directory, job["change"])
    if job["do"] == "stop":
        attempts = list(stopped(scene, directory))
    else:
        attempts = list(failed(scene, job["action"], job["error"], job["classes"]))
    return scene.ends() | {"attempts": attempts}


if __name__ == "__main__":
    files._SHARDS = files._SHARDS[:4]  # a store of few directories is copied sooner
    complete_upload.MIN_PART_BYTES = 1
    gc.freeze()  # a collection in a child would copy every page it looks at
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
