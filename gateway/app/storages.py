"""Which storage keeps the objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gateway.app.errors import StartError
from gateway.auth.principal import OWNER_ID
from gateway.config import Config
from gateway.storage.port import Storage
from gateway.storage.store import Store
from gateway.storage.tree.storage import TreeStorage

if TYPE_CHECKING:
    from gateway.storage.upstream.storage import UpstreamStorage

Secrets = Callable[[str], str | None]
"""The secret of an access key; asked by a driver that signs with users' own keys."""


def _nobody(_access_key: str) -> None:
    return None


@runtime_checkable
class Describing(Protocol):
    """A storage that knows more of itself once it is started."""

    def describe(self) -> str:
        """What the operator should know."""


def open_storage(config: Config, secrets: Secrets = _nobody) -> tuple[Storage, str]:
    """The driver of `storage.driver`, not started yet, and what the operator reads of it.

    Raises:
        StartError: its packages are not installed.
    """
    match config.storage.driver:
        case "store":
            return Store(config.store), f"store {config.store.root}"
        case "tree":
            return TreeStorage(config.tree, config.http.region), f"tree {config.tree.root}"
        case "upstream":
            return _upstream(config, secrets), f"upstream {config.upstream.endpoint or 'AWS'}"
        case other:
            raise ValueError(other)


Examined = tuple[tuple[str, bool], ...]
"""(what an S3 service might do, whether it does), in words."""


async def examine_upstream(config: Config) -> Examined:
    """Ask the service upstream what it can.

    Raises:
        StartError: aiobotocore is not installed.
        GatewayError: the service does not answer, or refuses the gateway's key.
    """
    storage = _upstream(config, _nobody)
    try:
        await storage.check()
        await storage.start()
        return storage.abilities.describe()
    finally:
        await storage.stop()


def _upstream(config: Config, secrets: Secrets) -> UpstreamStorage:
    try:
        # Here: aiobotocore is an extra, and nobody else needs it.
        from gateway.storage.upstream.storage import UpstreamStorage  # noqa: PLC0415
    except ImportError as error:
        raise StartError(f"{error}: install the package with its extra, [upstream]") from error
    return UpstreamStorage(
        config.upstream, own_id=OWNER_ID, region=config.http.region, secrets=secrets
    )
