"""A gateway process before somebody else's S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_process import GatewayProcess, gateway_process
from s3_servers import S3Server


@contextmanager
def gateway_before(
    server: S3Server, directory: Path, *flags: str, keys: tuple[str, str] | None = None
) -> Iterator[GatewayProcess]:
    """`storage.driver = "upstream"` at a server; its secret goes by the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("S3RDMA_UPSTREAM_SECRET_KEY", server.secret_key)
        own = ("--storage-driver", "upstream", "--upstream-endpoint", server.endpoint)
        key = ("--upstream-access-key", server.access_key)
        with gateway_process(directory, *own, *key, *flags, keys=keys) as process:
            yield process
