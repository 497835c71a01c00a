"""Whether packets can find a peer at all, by its address alone."""

from __future__ import annotations

from gateway.dataplane.networks import Networks, is_within
from gateway.dataplane.port import FabricInfo, LinkLayer, QpAddress
from gateway.errors import ClientError, S3Code

_IPV4_MAPPED = bytes(10) + b"\xff\xff"


def check_route(info: FabricInfo, peer: QpAddress, allowed: Networks | None = None) -> None:
    """Raise ClientError where packets to `peer` would vanish without a trace, or may not go.

    Args:
        info: our port.
        peer: where to.
        allowed: where peers may be, on Ethernet; None for anywhere.
    """
    if peer.qpn == 0 or peer.psn == 0:
        raise ClientError(S3Code.INVALID_ARGUMENT, "The RDMA peer's QPN and PSN must not be 0.")
    if info.link_layer is LinkLayer.INFINIBAND:
        if peer.lid == 0:
            raise ClientError(
                S3Code.INVALID_ARGUMENT,
                "The RDMA token has LID 0, which InfiniBand can't route: fill `lid` from "
                "ibv_query_port.",
            )
        return
    if peer.gid.startswith(_IPV4_MAPPED) != info.gid.startswith(_IPV4_MAPPED):
        ours = "IPv4" if info.gid.startswith(_IPV4_MAPPED) else "IPv6"
        raise ClientError(
            S3Code.INVALID_ARGUMENT,
            f"The RDMA token's GID is of another address family; this gateway's is {ours}.",
        )
    if allowed is not None and not is_within(peer.gid, allowed):
        raise ClientError(
            S3Code.RDMA_NOT_SUPPORTED,
            "The RDMA peer's address is in none of rdma.allowed_networks; use plain HTTP instead.",
        )
