"""The gateway's state as one JSON document: for the status page, and for scripts."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from ipaddress import IPv6Address
from typing import Any

from gateway import __version__
from gateway.dataplane.port import Fabric
from gateway.rdma.service import RdmaService
from gateway.telemetry.catalogue import HTTP_CONNECTIONS, MOVED_BYTES, REQUESTS, RUNNING
from gateway.telemetry.measures import Family
from gateway.telemetry.recent import RecentErrors
from gateway.telemetry.registry import Registry


@dataclass(frozen=True, slots=True)
class Status:
    """What the document is made from.

    Attributes:
        worker: this process's number among those that share the port.
        fabric: None where RDMA is off.
        because: the operator's line on the fabric, or why there is none.
        clock: POSIX seconds.
        started_s: on the same clock.
    """

    worker: int
    registry: Registry
    rdma: RdmaService
    fabric: Fabric | None
    because: str
    recent: RecentErrors
    clock: Callable[[], float]
    started_s: float

    def document(self) -> dict[str, Any]:
        """Everything now. No secret, no rkey, no whole id of a session is in it."""
        totals = _Totals(self.registry)
        return {
            "version": __version__,
            "pid": os.getpid(),
            "worker": self.worker,
            "started_s": self.started_s,
            "now_s": self.clock(),
            "http": {
                "connections": totals.of(HTTP_CONNECTIONS),
                "running": totals.of(RUNNING),
                "requests": totals.of(REQUESTS),
                "server_errors": totals.server_errors,
            },
            "moved_bytes": totals.by_label(MOVED_BYTES),
            "fabric": self._fabric(),
            "live": [asdict(one) for one in self.rdma.live()],
            "errors": [asdict(one) for one in self.recent.newest()],
        }

    def _fabric(self) -> dict[str, Any]:
        if self.fabric is None:
            return {"up": False, "because": self.because}
        info, usage = self.fabric.info, self.fabric.usage()
        gid = IPv6Address(info.gid)
        return {
            "up": self.fabric.healthy,
            "because": info.because,
            "kind": info.kind,
            "device": info.device,
            "port": info.port,
            "link_layer": info.link_layer.value,
            "gid": str(gid.ipv4_mapped or gid),
            "gid_index": info.gid_index,
            "lid": info.lid,
            "mtu_bytes": info.mtu_bytes,
            "staging": asdict(usage),
        }


class _Totals:
    """Sums of samples, over those labels that a reader of the page does not ask for."""

    def __init__(self, registry: Registry) -> None:
        self._sums = defaultdict[tuple[Family, tuple[str, ...]], float](float)
        for sample in registry.samples():
            if isinstance(sample.value, int | float):
                self._sums[sample.family, sample.labels] += sample.value

    def of(self, family: Family) -> float:
        return sum(value for (one, _), value in self._sums.items() if one is family)

    def by_label(self, family: Family) -> dict[str, float]:
        """By the values of all labels, joined by a blank."""
        return {
            " ".join(labels): value for (one, labels), value in self._sums.items() if one is family
        }

    @property
    def server_errors(self) -> float:
        """Requests that ended with 5xx."""
        return sum(
            value
            for (one, labels), value in self._sums.items()
            if one is REQUESTS and labels[1].startswith("5")
        )
