"""Every setting and every limit, frozen, with its unit last in its name.

A setting is written once, as a field here; its name, type, default, range and help become the TOML
key, the environment variable, the flag and the check (``gateway.config.load``). Each section of the
file is a module of this package.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.config.http import HttpConfig, HttpLimits
from gateway.config.log import LogConfig
from gateway.config.rdma import PRIVATE_NETWORKS, LaneClass, RdmaConfig
from gateway.config.setting import GIB, KIB, MIB, TIB, format_size, setting
from gateway.config.storage import Durability, StorageConfig, StoreConfig

__all__ = [
    "GIB",
    "KIB",
    "MIB",
    "PRIVATE_NETWORKS",
    "TIB",
    "Config",
    "Durability",
    "HttpConfig",
    "HttpLimits",
    "LaneClass",
    "LogConfig",
    "RdmaConfig",
    "StorageConfig",
    "StoreConfig",
    "format_size",
]


@dataclass(frozen=True, slots=True)
class Config:
    """Everything `serve` needs."""

    http: HttpConfig = field(default_factory=HttpConfig)
    rdma: RdmaConfig = field(default_factory=RdmaConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    log: LogConfig = field(default_factory=LogConfig)
    access_key: str = setting(
        "", "access key id; one is made where none is set, nor a file of them"
    )
    secret_key: str = setting("", "its secret (file or environment only)", flag=False, shown=False)
    credentials_file: str = setting(
        "", "access keys in AWS's own format; read again when it changes"
    )
