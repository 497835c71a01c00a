"""The tree: existing directories served as buckets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.config.setting import setting
from gateway.config.storage import Durability


@dataclass(frozen=True, slots=True)
class TreeConfig:
    """Directories that other programs use, too; several gateways may serve one."""

    root: Path = setting(Path("tree"), "existing directory; its directories are the buckets")  # noqa: RUF009
    read_only: bool = setting(False, "change nothing there")
    durability: Durability = setting(Durability.FULL, "what a commit waits for")  # noqa: RUF009
    follow_symlinks: bool = setting(False, "follow links that stay inside the bucket")
    meta_name: str = setting(".s3rdma", "hidden directory of the gateway's own, in the root")
    upload_expiry_s: float = setting(7 * 86_400.0, "until a multipart upload is dropped")
    lock_timeout_s: float = setting(10.0, "wait for another writer of the same key")
    io_threads: int = setting(16, "threads for files", high=256)
    max_staged: int = setting(1024, "objects being written at once")

    @property
    def own_root(self) -> Path:
        """The gateway's own directory."""
        return self.root / self.meta_name
