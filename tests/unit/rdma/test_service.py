"""What the service says it holds; its protocols have their own tests."""

from __future__ import annotations

from typing import Any

from gateway.config import RdmaConfig
from gateway.rdma.service import RdmaService


async def _nothing(*_args: Any) -> Any:
    return None


async def test_usage__rdma_is_off__is_zero_in_every_state() -> None:
    service = RdmaService(None, RdmaConfig(), route=_nothing, authorise=_nothing, perform=_nothing)
    usage = service.usage()
    assert usage.sessions == dict.fromkeys(
        ("opening", "prepared", "moving", "committing", "closing"), 0
    )
    assert usage.connections == {}
