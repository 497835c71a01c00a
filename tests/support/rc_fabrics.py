"""The fabrics that connections are proved on: a gateway's flags, and a client of each.

Soft over UDP, soft between processes of one host, and a device, where the client is pyverbs.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from fabric_wires import WIRES
from gateway_process import GatewayProcess
from raw_rc import rc_peer
from rc_client import Desk, RcClient

from gateway.config import RdmaConfig

EMULATED = "RDMA_VM_DEVICES" in os.environ
Key = tuple[str, str]
BOB: Key = ("AKIDBOB", "secret-of-bob")  # another account's


@dataclass(frozen=True)
class RcFabric:
    """One way for a connection's bytes.

    Attributes:
        carrier: "udp", "local" or "verbs".
    """

    carrier: str

    def __str__(self) -> str:
        return self.carrier

    @property
    def flags(self) -> tuple[str, ...]:
        """Of the gateway."""
        if self.carrier == "verbs":
            return ("--rdma-fabric", "verbs", "--rdma-device", devices()[0])
        return ("--rdma-fabric", "soft", "--rdma-soft-carrier", self.carrier)

    @property
    def idle_s(self) -> int:
        """An idle timeout that a connection in use does not meet here."""
        return 4 if EMULATED else 1

    def client(
        self, gateway: GatewayProcess, key: Key | None = None, **options: bool
    ) -> AbstractAsyncContextManager[RcClient]:
        """A connected client; `options` are `sign` and `leave`, as of `rc_peer`."""
        return self.client_at(Desk.of(gateway, key), **options)

    def client_at(self, desk: Desk, **options: bool) -> AbstractAsyncContextManager[RcClient]:
        """The same for any endpoint."""
        if self.carrier != "verbs":
            return rc_peer(desk, RdmaConfig(fabric="soft", soft_carrier=self.carrier), **options)
        from pyverbs_rc import pyverbs_client  # only where there is a device

        gid_index = int(os.environ.get("RDMA_VM_GID_INDEX", "1"))
        return pyverbs_client(desk, devices()[-1], gid_index, **options)


def devices() -> list[str]:
    """The rig's two devices, or what this host has."""
    named = os.environ.get("RDMA_VM_DEVICES", "").split()
    return named or sorted(os.listdir("/sys/class/infiniband"))


def _at_hand() -> tuple[RcFabric, ...]:
    """In an emulated machine the device only: it is slow, and its host ran the others."""
    found = dict.fromkeys(wire.carrier for wire in WIRES if not wire.missing)
    return tuple(RcFabric(carrier) for carrier in found if carrier == "verbs" or not EMULATED)


AT_HAND = _at_hand()
