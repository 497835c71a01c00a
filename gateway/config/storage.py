"""Where objects are kept: which driver, and the embedded store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from gateway.config.setting import KIB, setting


class Durability(Enum):
    """How much a commit waits for: file, directory and database; the data only; nothing."""

    FULL = "full"
    DATA = "data"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """Which driver keeps the objects; each has a section of its own."""

    driver: str = setting("store", "what keeps the objects", choices=("store", "tree", "upstream"))


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The embedded store."""

    root: Path = setting(Path("data"), "directory that holds everything")  # noqa: RUF009
    durability: Durability = setting(Durability.FULL, "what a commit waits for")  # noqa: RUF009
    upload_expiry_s: float = setting(7 * 86_400.0, "until a multipart upload is dropped")
    inline_max_bytes: int = setting(
        8 * KIB,
        "objects up to this length are kept in the catalog, without a file",
        low=0,
        high=64 * KIB,
    )
    start_wait_s: float = setting(30.0, "until another gateway's sweep of the store is over", low=0)
    io_threads: int = setting(8, "threads for files and the database", high=256)
    max_staged: int = setting(1024, "objects being written at once")
    max_pending_changes: int = setting(4096, "changes of the catalog that wait for the disk")
