"""Where objects are kept: which driver, and the embedded store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from gateway.config.setting import setting


class Durability(Enum):
    """How much a commit waits for: file, directory and database; the data only; nothing."""

    FULL = "full"
    DATA = "data"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class StorageConfig:
    """Which driver keeps the objects; each has a section of its own."""

    driver: str = setting("store", "what keeps the objects", choices=("store",))


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The embedded store."""

    root: Path = setting(Path("data"), "directory that holds everything")  # noqa: RUF009
    durability: Durability = setting(Durability.FULL, "what a commit waits for")  # noqa: RUF009
    upload_expiry_s: float = setting(7 * 86_400.0, "until a multipart upload is dropped")
    io_threads: int = setting(8, "threads for files and the database", high=256)
    max_staged: int = setting(1024, "objects being written at once")
    max_pending_changes: int = setting(4096, "changes of the catalog that wait for the disk")
