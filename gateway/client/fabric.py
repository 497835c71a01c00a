"""The RDMA device of this host, opened when the first transfer wants it, once."""

from __future__ import annotations

from collections.abc import Callable

from gateway.client.errors import UnsupportedError
from gateway.config import RdmaConfig
from gateway.dataplane.port import Fabric, FabricUnavailable

Opener = Callable[[RdmaConfig], Fabric]


def open_device(config: RdmaConfig) -> Fabric:
    """A fabric without an arena: the memory is each caller's own."""
    # Here and not above: where the C core was not built, the client still speaks HTTP.
    from gateway.dataplane.engine import open_fabric  # noqa: PLC0415

    return open_fabric(config, arena=False)


class FabricDoor:
    """Opens the device once; a host that has none stays without one."""

    def __init__(self, device: str, opener: Opener = open_device) -> None:
        self._config = RdmaConfig(device=device)
        self._opener = opener
        self._fabric: Fabric | None = None
        self._reason: str | None = None

    async def fabric(self) -> Fabric:
        """The open device.

        Raises:
            UnsupportedError: there is none that can be used; the text says why.
        """
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

    async def close(self) -> None:
        if self._fabric is not None:
            await self._fabric.close()
