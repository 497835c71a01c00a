"""The RDMA device of this host, opened when the first transfer wants it, once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from gateway.client.errors import S3Error, UnreachableError, UnsupportedError
from gateway.config import RdmaConfig
from gateway.dataplane.failures import CompletionError
from gateway.dataplane.port import CompletionClass, Fabric, FabricInfo, FabricUnavailable
from gateway.errors import S3Code

Opener = Callable[[RdmaConfig], Fabric]


def open_device(config: RdmaConfig) -> Fabric:
    """A fabric without an arena: the memory is each caller's own."""
    # Here and not above: where the C core was not built, the client still speaks HTTP.
    from gateway.dataplane.engine import open_fabric  # noqa: PLC0415

    return open_fabric(config, arena=False)


def fabric_config(device: str) -> RdmaConfig:
    """The fabric that `device` names.

    Args:
        device: an RDMA device; "soft" for RoCE v2 over UDP on this host, "soft:ADDRESS" for one
            that others can reach; "" takes a device that can be used, else "soft".
    """
    name, _, address = device.partition(":")
    if name == "soft":
        return RdmaConfig(fabric="soft", soft_address=address)
    return RdmaConfig(device=device)


def check_reach(info: FabricInfo, endpoint: str) -> None:
    """Raise UnsupportedError where `endpoint` is on another host and `info` is loopback's."""
    host = urlsplit(endpoint).hostname or ""
    if not _reaches(info.gid, host):
        raise UnsupportedError(
            f"this host has no RDMA device, and {host} can't reach the soft fabric on loopback: "
            "name an address of this host, as in --device soft:192.0.2.7"
        )


def check_touch(info: FabricInfo, *, on_host: bool) -> None:
    """Raise UnsupportedError where the memory is a GPU's and `info` is no device's."""
    if info.kind == "soft" and not on_host:
        raise UnsupportedError(
            "the soft fabric copies by the processor, and the memory is a GPU's: an RDMA device is "
            "needed for it"
        )


def check_answered(info: FabricInfo, error: Exception) -> None:
    """Raise UnreachableError where `error` is what packets that nobody gets end in.

    So it is with a gateway in a container whose HTTP port is published, or behind a tunnel: both
    sides are on loopback, each on its own. Of the soft fabric only: a device is on a network that
    somebody built for it, and its failures are to be seen.
    """
    match error:
        case CompletionError(blame=CompletionClass.TRANSPORT):  # ours, of a PUT
            pass
        case S3Error(code=S3Code.RDMA_TRANSFER_FAILED.code):  # the gateway's, of a GET
            pass
        case _:
            return
    if info.kind == "soft":
        raise UnreachableError(
            "no packet of the soft fabric gets through (is the gateway in a container, or behind a "
            "tunnel or a firewall for UDP port 4791?): give both sides an address that the other "
            "reaches, by rdma.soft_address there and --device soft:ADDRESS here"
        ) from error


@lru_cache(maxsize=16)
def _reaches(gid: bytes, host: str) -> bool:
    address = IPv6Address(gid).ipv4_mapped or IPv6Address(gid)
    return not address.is_loopback or _is_loopback(host)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")  # RFC 6761, 6.3


class FabricDoor:
    """Opens the device once; a host that has none stays without one."""

    def __init__(self, device: str, opener: Opener = open_device) -> None:
        self._config = fabric_config(device)
        self._opener = opener
        self._fabric: Fabric | None = None
        self._reason: str | None = None
        self._shut: str | None = None

    async def fabric(self) -> Fabric:
        """The open device.

        Raises:
            UnsupportedError: there is none that can be used; the text says why.
        """
        if self._shut is not None:
            raise UnsupportedError(self._shut)
        if self._fabric is None and self._reason is None:
            try:
                self._fabric = self._opener(self._config)
            except (FabricUnavailable, ImportError) as error:
                self._reason = f"this host can't do RDMA: {error}"
        if self._fabric is None:
            raise UnsupportedError(str(self._reason))
        if not self._fabric.healthy:
            raise UnsupportedError("this host's RDMA device or its port went down")
        return self._fabric

    def shut(self, reason: str) -> None:
        """The device is of no use with this server: later transfers need not try it."""
        self._shut = reason

    async def close(self) -> None:
        if self._fabric is not None:
            await self._fabric.close()
