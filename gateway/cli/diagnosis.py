"""From a host's facts to findings in plain words, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv6Address

from gateway.cli.host import HostFacts
from gateway.config import MIB, RdmaConfig
from gateway.dataplane.devices import DeviceInfo, Gid, GidType
from gateway.dataplane.port import LinkLayer

_GID_NAMES = {GidType.IB: "IB", GidType.ROCE_V1: "RoCE v1", GidType.ROCE_V2: "RoCE v2"}


class Level(Enum):
    """How a finding weighs."""

    GOOD = "ok"
    NOTE = "note"  # works, could be better
    BAD = "missing"  # keeps RDMA from working


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: one or two words.
        detail: what is so.
        remedy: what to do, a command where there is one; "" where all is well.
    """

    level: Level
    subject: str
    detail: str
    remedy: str = ""


def diagnose(facts: HostFacts, config: RdmaConfig) -> tuple[Finding, ...]:
    """Everything that was looked at, from the kernel outwards.

    Args:
        facts: of this host.
        config: what the gateway would need: its staging must be pinned.
    """
    return (
        *_kernel(facts),
        *_nodes(facts),
        *_library(facts),
        *(finding for info in facts.devices for finding in _port(info, facts)),
        _soft(facts),
        _memlock(facts, config),
        _huge_pages(facts, config),
    )


def usable(facts: HostFacts) -> tuple[DeviceInfo, ...]:
    """The ports that can carry objects."""
    return tuple(info for info in facts.devices if not info.problem)


def verdict(facts: HostFacts, findings: tuple[Finding, ...]) -> tuple[bool, str]:
    """Whether this host can, and the one line that says so."""
    ports = usable(facts)
    bad = [finding for finding in findings if finding.level is Level.BAD]
    if ports and not bad:
        names = ", ".join(f"{info.device} port {info.port}" for info in ports)
        return True, f"Objects can move by RDMA: {names}."
    if not bad and not facts.soft_problem:
        return True, "Objects can move by the soft fabric, which needs no RDMA device."
    first = bad[0].detail if bad else "there is no RDMA device"
    return False, f"Objects can't move by RDMA: {first}. Plain HTTP works."


def _device_level(facts: HostFacts) -> Level:
    """How a lack weighs that only a device minds: where there is none, the soft fabric goes on."""
    return Level.BAD if usable(facts) or facts.soft_problem else Level.NOTE


def _kernel(facts: HostFacts) -> Iterator[Finding]:
    if facts.drivers:
        detail = f"Linux {facts.kernel} with {', '.join(facts.drivers)}"
        yield Finding(Level.GOOD, "kernel", detail)
    else:
        yield Finding(
            Level.NOTE,
            "kernel",
            f"Linux {facts.kernel} has no RDMA module loaded",
            "load the NIC's driver (mlx5_ib, irdma, …), or Soft-RoCE on any Ethernet interface: "
            "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE",
        )


def _nodes(facts: HostFacts) -> Iterator[Finding]:
    closed = [node for node, allowed in facts.verbs_nodes.items() if not allowed]
    if closed:
        yield Finding(
            _device_level(facts),
            "device files",
            f"this user may not open {', '.join(closed)}",
            "join the group that owns them (rdma), or give the service access to /dev/infiniband",
        )
    elif facts.verbs_nodes:
        yield Finding(Level.GOOD, "device files", ", ".join(facts.verbs_nodes))
    elif facts.container:
        yield Finding(
            _device_level(facts),
            "device files",
            f"this {facts.container} container sees no /dev/infiniband",
            _container_remedy(facts.container),
        )
    else:
        yield Finding(
            _device_level(facts),
            "device files",
            "there is no /dev/infiniband/uverbs*",
            "modprobe ib_uverbs, and the NIC's RDMA driver",
        )


def _container_remedy(runtime: str) -> str:
    if runtime == "kubernetes":
        return "request an RDMA device plugin's resource and add the capability IPC_LOCK to the pod"
    return (
        f"{runtime} run --device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1 "
        "--network host …"
    )


def _library(facts: HostFacts) -> Iterator[Finding]:
    if facts.unavailable is not None:
        yield Finding(
            _device_level(facts), "libibverbs", facts.unavailable.reason, facts.unavailable.remedy
        )
    elif not facts.devices:
        yield Finding(
            _device_level(facts),
            "libibverbs",
            "it shows no RDMA device",
            "install the providers (Debian: ibverbs-providers), and see `rdma link`",
        )
    else:
        yield Finding(Level.GOOD, "libibverbs", f"{len(facts.devices)} port(s)")


def _soft(facts: HostFacts) -> Finding:
    """What `rdma.fabric = auto` takes where no device can be used."""
    if facts.soft_problem:
        return Finding(Level.NOTE, "soft fabric", facts.soft_problem)
    used = "rdma.fabric = soft chooses it" if usable(facts) else "rdma.fabric = auto takes it"
    return Finding(Level.GOOD, "soft fabric", f"RoCE v2 over UDP port 4791; {used}")


def _port(info: DeviceInfo, facts: HostFacts) -> Iterator[Finding]:
    """A port; one that can't be used is bad only where no other can."""
    subject = f"{info.device} port {info.port}" if info.port else info.device
    if not info.port:
        yield Finding(_unusable_level(facts), subject, f"{subject}: {info.problem}", "see dmesg")
        return
    rate = facts.rates.get((info.device, info.port))
    lid = f", LID {info.lid}" if info.link_layer is LinkLayer.INFINIBAND else ""
    detail = (
        f"{info.link_layer.value}{lid}, {info.state}, MTU {info.mtu_bytes} of "
        f"{info.mtu_max_bytes}{f', {rate}' if rate else ''}"
        f"{f', firmware {info.firmware}' if info.firmware else ''}"
    )
    if info.problem:
        yield Finding(_unusable_level(facts), subject, f"{subject}: {detail}", info.problem)
    elif info.mtu_bytes < info.mtu_max_bytes:
        remedy = "raise the interface's MTU (ip link set INTERFACE mtu 4200) on every hop"
        yield Finding(Level.NOTE, subject, detail, remedy)
    else:
        yield Finding(Level.GOOD, subject, detail)
    for gid in info.gids:
        yield Finding(Level.GOOD, subject, f"GID {gid.index}: {_gid(gid)}")


def _unusable_level(facts: HostFacts) -> Level:
    return Level.NOTE if usable(facts) else _device_level(facts)


def _gid(gid: Gid) -> str:
    address = IPv6Address(gid.raw)
    shown = address.ipv4_mapped or address
    link_local = ", link-local" if gid.link_local else ""
    return f"{shown} ({_GID_NAMES[gid.type]}{link_local})"


def _memlock(facts: HostFacts, config: RdmaConfig) -> Finding:
    needed_mib = -(-config.staging_bytes // MIB)
    if facts.memlock_bytes is None:
        return Finding(Level.GOOD, "memlock", "memory may be pinned without limit")
    limit_mib = facts.memlock_bytes // MIB
    detail = f"{limit_mib} MiB may be pinned; the gateway's staging needs {needed_mib} MiB"
    if facts.memlock_bytes >= config.staging_bytes:
        return Finding(Level.GOOD, "memlock", detail)
    return Finding(
        _device_level(facts),
        "memlock",
        detail,
        "ulimit -l unlimited (systemd: LimitMEMLOCK=infinity; containers: --ulimit memlock=-1), or "
        "fewer and shorter rdma.lanes",
    )


def _huge_pages(facts: HostFacts, config: RdmaConfig) -> Finding:
    free_bytes = facts.huge_pages_free * facts.huge_page_bytes
    detail = f"{free_bytes // MIB} MiB free in huge pages"
    if free_bytes >= config.staging_bytes:
        return Finding(Level.GOOD, "huge pages", detail)
    pages = -(-config.staging_bytes // (facts.huge_page_bytes or 2 * MIB))
    return Finding(
        Level.NOTE,
        "huge pages",
        f"{detail}; staging of {config.staging_bytes // MIB} MiB registers faster in them",
        f"sysctl vm.nr_hugepages={pages}",
    )
