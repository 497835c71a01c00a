"""Which storage keeps the objects."""

from __future__ import annotations

from gateway.config import Config
from gateway.storage.port import Storage
from gateway.storage.store import Store


def open_storage(config: Config) -> tuple[Storage, str]:
    """The driver of `storage.driver`, not started yet, and what the operator reads of it."""
    match config.storage.driver:
        case "store":
            return Store(config.store), f"store {config.store.root}"
        case other:
            raise ValueError(other)
