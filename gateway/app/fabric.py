"""Which fabric carries the bytes, and its line for the operator."""

from __future__ import annotations

from ipaddress import IPv6Address

from gateway.app.errors import StartError
from gateway.config import RdmaConfig
from gateway.dataplane.port import Fabric, FabricUnavailable


def open_fabric(config: RdmaConfig) -> tuple[Fabric | None, str]:
    """The fabric and its line for the operator; None where RDMA is off, with the reason.

    Raises:
        StartError: "verbs" or "soft" was demanded and can't be had.
    """
    if config.fabric == "off":
        return None, "off: rdma.fabric is off"
    try:
        # Here and not above: where the C core was not built, the gateway still serves HTTP.
        from gateway.dataplane import engine  # noqa: PLC0415

        fabric = engine.open_fabric(config, arena=True)
    except (FabricUnavailable, ImportError) as error:
        if config.fabric in ("verbs", "soft"):
            raise StartError(f"no RDMA: {error}") from error
        return None, f"off: {error}"
    info = fabric.info
    gid = IPv6Address(info.gid)
    where = (
        "soft fabric (RoCE v2 over UDP)"
        if info.kind == "soft"
        else f"{info.device} port {info.port}"
    )
    gid_text = gid.ipv4_mapped or gid
    return fabric, f"{where}, GID {gid_text}, MTU {info.mtu_bytes}, because {info.because}"
