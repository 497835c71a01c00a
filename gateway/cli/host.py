"""What this host says about itself, as far as RDMA is concerned: read once, judged elsewhere."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.config import RdmaConfig
from gateway.dataplane import soft
from gateway.dataplane.devices import DeviceInfo, list_devices
from gateway.dataplane.port import FabricUnavailable

ROOT = Path("/")

_CAP_IPC_LOCK = 14  # capability.h: lets a process lock memory past its limit
_DRIVERS = ("ib_core", "ib_uverbs", "rdma_rxe", "siw", "mlx5_ib", "mlx4_ib", "irdma", "efa")


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A snapshot.

    Attributes:
        drivers: the kernel's RDMA modules that are loaded.
        verbs_nodes: /dev/infiniband/uverbs*, and whether this process may open them.
        devices: every port of every device that libibverbs shows.
        unavailable: why it shows none at all, and the remedy; None where it works.
        rates: (device, port) to the kernel's words on its speed.
        memlock_bytes: how much may be pinned; None is without limit.
        huge_pages_free / huge_page_bytes: of the default size; 0 where there are none.
        container: "docker", "podman", "kubernetes", … or "" on a host of its own.
        netdev_backlog: packets that wait for a processor at most; 0 where it isn't told.
        soft_problem: why the soft fabric can't be opened, and the remedy; None where it can.
    """

    kernel: str
    drivers: tuple[str, ...]
    verbs_nodes: Mapping[str, bool]
    devices: tuple[DeviceInfo, ...]
    unavailable: FabricUnavailable | None
    rates: Mapping[tuple[str, int], str]
    memlock_bytes: int | None
    huge_pages_free: int
    huge_page_bytes: int
    container: str
    netdev_backlog: int
    soft_problem: FabricUnavailable | None


def read_host(config: RdmaConfig, root: Path = ROOT) -> HostFacts:
    """Look around. Never fails: what can't be read counts as absent.

    Args:
        config: the soft fabric is tried as it says.
        root: where the host's files are.
    """
    devices: tuple[DeviceInfo, ...] = ()
    unavailable = None
    try:
        devices = list_devices()
    except FabricUnavailable as error:
        unavailable = error
    huge_pages_free, huge_page_bytes = _huge_pages(root)
    return HostFacts(
        kernel=os.uname().release,
        drivers=tuple(name for name in _DRIVERS if (root / "sys/module" / name).exists()),
        verbs_nodes={
            str(node): os.access(node, os.R_OK | os.W_OK)
            for node in sorted((root / "dev/infiniband").glob("uverbs*"))
        },
        devices=devices,
        unavailable=unavailable,
        rates={(info.device, info.port): _rate(root, info) for info in devices},
        memlock_bytes=_memlock_bytes(root),
        huge_pages_free=huge_pages_free,
        huge_page_bytes=huge_page_bytes,
        container=_container(root),
        netdev_backlog=int(_text(root / "proc/sys/net/core/netdev_max_backlog") or 0),
        soft_problem=soft.problem(config),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _fields(path: Path) -> dict[str, str]:
    """``Name: value`` lines, as in /proc/meminfo and /proc/self/status."""
    rows = (line.partition(":") for line in _text(path).splitlines())
    return {name.strip(): value.strip() for name, _, value in rows}


def _rate(root: Path, info: DeviceInfo) -> str:
    port = root / "sys/class/infiniband" / info.device / "ports" / str(info.port)
    return _text(port / "rate").strip()


def _memlock_bytes(root: Path) -> int | None:
    capabilities = int(_fields(root / "proc/self/status").get("CapEff", "0"), 16)
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if capabilities >> _CAP_IPC_LOCK & 1 or limit_bytes == resource.RLIM_INFINITY:
        return None
    return limit_bytes


def _huge_pages(root: Path) -> tuple[int, int]:
    fields = _fields(root / "proc/meminfo")
    size_kib = fields.get("Hugepagesize", "0 kB").split()[0]
    return int(fields.get("HugePages_Free", "0")), int(size_kib) * 1024


def _container(root: Path) -> str:
    """By the marks that the runtimes leave (systemd-detect-virt looks at the same)."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / "var/run/secrets/kubernetes.io").exists():
        return "kubernetes"
    return ""
