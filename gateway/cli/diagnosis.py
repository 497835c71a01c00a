"""From a host's facts to findings in plain words, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv6Address

from gateway.cli.host import HostFacts
from gateway.config import MIB, RdmaConfig
from gateway.dataplane import soft
from gateway.dataplane.devices import DeviceInfo, Gid, GidType, choose_port
from gateway.dataplane.port import FabricUnavailable, LinkLayer

_GID_NAMES = {GidType.IB: "IB", GidType.ROCE_V1: "RoCE v1", GidType.ROCE_V2: "RoCE v2"}
_SOFT_ROCE_BACKLOG = 20_000  # packets: 39 answers to READs of 2 MiB, in packets of 4 KiB


class Level(Enum):
    """How a finding weighs."""

    GOOD = "ok"
    NOTE = "note"  # works, could be better
    BAD = "missing"  # keeps RDMA from working
    BROKEN = "broken"  # keeps everything from working


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: one or two words.
        detail: what is so.
        remedy: what to do, a command where there is one; "" where there is nothing to do.
    """

    level: Level
    subject: str
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The fabric that `serve` opens on this host.

    Attributes:
        fabric: "verbs" (a device), "soft", or "" where there is none.
        because: why this one, or why none.
    """

    fabric: str
    because: str


def choose(facts: HostFacts, config: RdmaConfig) -> Choice:
    """What `open_fabric` will do, said before it does it."""
    if config.fabric == "off":
        return Choice("", "rdma.fabric is off")
    no_device, no_soft = _device_problem(facts, config), facts.soft_problem
    if config.fabric == soft.NAME:
        return Choice("", no_soft.reason) if no_soft else Choice(soft.NAME, "rdma.fabric asks")
    if no_device is None:
        return Choice("verbs", "there is a device that can be used")
    if not soft.may_stand_in(config):
        return Choice("", no_device.reason)
    if no_soft is None:
        return Choice(soft.NAME, no_device.reason)
    return Choice("", f"{no_device.reason}, and {no_soft.reason}")


def diagnose(facts: HostFacts, config: RdmaConfig) -> tuple[Finding, ...]:
    """Everything that was looked at, from the kernel outwards.

    Args:
        facts: of this host.
        config: what the gateway would need: a device must pin its staging.
    """
    choice = choose(facts, config)
    lack = Level.NOTE if choice.fabric else Level.BAD  # grave where it leaves no fabric at all
    pages = () if choice.fabric == soft.NAME else (_huge_pages(facts, config),)
    return (
        *_kernel(facts),
        *_nodes(facts, lack),
        *_library(facts, lack),
        *_backlog(facts),
        *(finding for info in facts.devices for finding in _port(info, facts, lack)),
        _soft(facts, config, lack),
        _memlock(facts, config, lack),
        *pages,
    )


def verdict(config: RdmaConfig, choice: Choice, findings: tuple[Finding, ...]) -> tuple[bool, str]:
    """Whether this host can, and the one line that says by which fabric and why."""
    broken = next((one for one in findings if one.level is Level.BROKEN), None)
    if broken is not None:
        return False, f"Nothing can be moved: {broken.subject}: {broken.detail}"
    bad = [finding for finding in findings if finding.level is Level.BAD]
    if bad or not choice.fabric:
        reason = choice.because if not choice.fabric else bad[0].detail
        return False, f"Objects can't move by RDMA: {reason}. Plain HTTP works."
    name = "the soft fabric" if choice.fabric == soft.NAME else "an RDMA device"
    return True, (
        f"Objects can move by RDMA: rdma.fabric = {config.fabric} takes {name}, because "
        f"{choice.because}."
    )


def _device_problem(facts: HostFacts, config: RdmaConfig) -> FabricUnavailable | None:
    """Why no device will do; None where one will."""
    if facts.unavailable is not None:
        return facts.unavailable
    try:
        choose_port(facts.devices, config.device, config.port, config.gid_index)
    except FabricUnavailable as problem:
        return problem
    return _pinning_problem(facts, config)


def _pinning_problem(facts: HostFacts, config: RdmaConfig) -> FabricUnavailable | None:
    if facts.memlock_bytes is None or facts.memlock_bytes >= config.staging_bytes:
        return None
    return FabricUnavailable(
        f"{facts.memlock_bytes // MIB} MiB may be pinned, and a device needs the gateway's "
        f"staging of {-(-config.staging_bytes // MIB)} MiB pinned",
        "ulimit -l unlimited (systemd: LimitMEMLOCK=infinity; containers: --ulimit memlock=-1), or "
        "fewer and shorter rdma.lanes",
    )


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


def _nodes(facts: HostFacts, lack: Level) -> Iterator[Finding]:
    closed = [node for node, allowed in facts.verbs_nodes.items() if not allowed]
    if closed:
        yield Finding(
            lack,
            "device files",
            f"this user may not open {', '.join(closed)}",
            "join the group that owns them (rdma), or give the service access to /dev/infiniband",
        )
    elif facts.verbs_nodes:
        yield Finding(Level.GOOD, "device files", ", ".join(facts.verbs_nodes))
    elif facts.container:
        yield Finding(
            lack,
            "device files",
            f"this {facts.container} container sees no /dev/infiniband",
            _container_remedy(facts.container),
        )
    else:
        yield Finding(
            lack,
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


def _library(facts: HostFacts, lack: Level) -> Iterator[Finding]:
    if facts.unavailable is not None:
        yield Finding(lack, "libibverbs", facts.unavailable.reason, facts.unavailable.remedy)
    elif not facts.devices:
        yield Finding(
            lack,
            "libibverbs",
            "it shows no RDMA device",
            "install the providers (Debian: ibverbs-providers), and see `rdma link`",
        )
    else:
        yield Finding(Level.GOOD, "libibverbs", f"{len(facts.devices)} port(s)")


def _soft(facts: HostFacts, config: RdmaConfig, lack: Level) -> Finding:
    if facts.soft_problem is not None:
        return Finding(lack, "soft fabric", facts.soft_problem.reason, facts.soft_problem.remedy)
    detail = f"RoCE v2 over UDP port {soft.PORT}"
    if config.soft_address:
        return Finding(Level.GOOD, "soft fabric", f"{detail} of {config.soft_address}")
    return Finding(
        Level.GOOD,
        "soft fabric",
        f"{detail}, for peers on this host",
        "for peers elsewhere set rdma.soft_address to an address of this host that they reach",
    )


def _backlog(facts: HostFacts) -> Iterator[Finding]:
    """The queue between virtual interfaces, or the loopback's, where Soft-RoCE drops first."""
    if "rdma_rxe" in facts.drivers and 0 < facts.netdev_backlog < _SOFT_ROCE_BACKLOG:
        yield Finding(
            Level.NOTE,
            "Soft-RoCE",
            f"{facts.netdev_backlog} packets may wait between interfaces of this host: PUTs of "
            "several clients at once lose some, and are tried again",
            f"sysctl net.core.netdev_max_backlog={_SOFT_ROCE_BACKLOG}",
        )


def _port(info: DeviceInfo, facts: HostFacts, lack: Level) -> Iterator[Finding]:
    """A port; one that can't be used is bad only where no other can."""
    subject = f"{info.device} port {info.port}" if info.port else info.device
    if not info.port:
        yield Finding(lack, subject, f"{subject}: {info.problem}", "see dmesg")
        return
    rate = facts.rates.get((info.device, info.port))
    lid = f", LID {info.lid}" if info.link_layer is LinkLayer.INFINIBAND else ""
    detail = (
        f"{info.link_layer.value}{lid}, {info.state}, MTU {info.mtu_bytes} of "
        f"{info.mtu_max_bytes}{f', {rate}' if rate else ''}"
        f"{f', firmware {info.firmware}' if info.firmware else ''}"
    )
    if info.problem:
        yield Finding(lack, subject, f"{subject}: {detail}", info.problem)
    elif info.mtu_bytes < info.mtu_max_bytes:
        remedy = "raise the interface's MTU (ip link set INTERFACE mtu 4200) on every hop"
        yield Finding(Level.NOTE, subject, detail, remedy)
    else:
        yield Finding(Level.GOOD, subject, detail)
    for gid in info.gids:
        yield Finding(Level.GOOD, subject, f"GID {gid.index}: {_gid(gid)}")


def _gid(gid: Gid) -> str:
    address = IPv6Address(gid.raw)
    shown = address.ipv4_mapped or address
    link_local = ", link-local" if gid.link_local else ""
    return f"{shown} ({_GID_NAMES[gid.type]}{link_local})"


def _memlock(facts: HostFacts, config: RdmaConfig, lack: Level) -> Finding:
    problem = _pinning_problem(facts, config)
    if problem is not None:
        note = "; the soft fabric pins none" if lack is Level.NOTE else ""
        return Finding(lack, "memlock", problem.reason + note, problem.remedy)
    if facts.memlock_bytes is None:
        return Finding(Level.GOOD, "memlock", "memory may be pinned without limit")
    return Finding(
        Level.GOOD,
        "memlock",
        f"{facts.memlock_bytes // MIB} MiB may be pinned, enough for the gateway's staging",
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
