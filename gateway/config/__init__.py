"""Every setting and every limit, frozen, with its unit last in its name.

A setting is written once, as a field here; its name, type, default, range and help become the TOML
key, the environment variable, the flag and the check (``gateway.config.load``). Each section of the
file is a module of this package.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gateway.config.admin import AdminConfig
from gateway.config.http import HttpConfig, HttpLimits
from gateway.config.limits import LimitsConfig
from gateway.config.log import LogConfig
from gateway.config.rdma import PRIVATE_NETWORKS, LaneClass, RdmaConfig
from gateway.config.setting import GIB, KIB, MIB, TIB, format_size, setting
from gateway.config.storage import Durability, StorageConfig, StoreConfig
from gateway.config.tls import TlsConfig
from gateway.config.traces import TracesConfig
from gateway.config.tree import TreeConfig
from gateway.config.upstream import UpstreamConfig

__all__ = [
    "GIB",
    "KIB",
    "MIB",
    "PRIVATE_NETWORKS",
    "TIB",
    "AdminConfig",
    "Config",
    "Durability",
    "HttpConfig",
    "HttpLimits",
    "LaneClass",
    "LimitsConfig",
    "LogConfig",
    "RdmaConfig",
    "StorageConfig",
    "StoreConfig",
    "TlsConfig",
    "TracesConfig",
    "TreeConfig",
    "UpstreamConfig",
    "format_size",
]


@dataclass(frozen=True, slots=True)
class Config:
    """Everything `serve` needs."""

    http: HttpConfig = field(default_factory=HttpConfig)
    rdma: RdmaConfig = field(default_factory=RdmaConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    tree: TreeConfig = field(default_factory=TreeConfig)
    upstream: UpstreamConfig = field(default_factory=UpstreamConfig)
    log: LogConfig = field(default_factory=LogConfig)
    admin: AdminConfig = field(default_factory=AdminConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    traces: TracesConfig = field(default_factory=TracesConfig)
    workers: int = setting(1, "processes that share the port", high=256)
    access_key: str = setting(
        "", "access key id; one is made where none is set, nor a file of them"
    )
    secret_key: str = setting("", "its secret (file or environment only)", flag=False, shown=False)
    credentials_file: str = setting(
        "", "access keys in AWS's own format; read again when it changes"
    )

    @property
    def own_root(self) -> Path:
        """The directory that the gateway has for itself: a key that it made is there."""
        return self.tree.own_root if self.storage.driver == "tree" else self.store.root
