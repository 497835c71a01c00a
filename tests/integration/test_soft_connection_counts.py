"""Requests on connections that stay make nothing anew, by each carrier of the soft fabric."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import counted_gets
import pytest
from counted_gets import CONNECTIONS, Counted

REQUESTS = 1000
AT_ONCE = 64


@pytest.fixture(params=["udp", "local"])
async def counted(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Counted]:
    rdma = counted_gets.config(fabric="soft", soft_carrier=request.param)
    async with counted_gets.counted(tmp_path, rdma, "soft", monkeypatch) as both:
        yield both


async def test_get__thousand_one_after_the_other__make_and_allocate_nothing(
    counted: Counted,
) -> None:
    await counted_gets.one_after_the_other(counted, REQUESTS)


@pytest.mark.parametrize("connections", [1, CONNECTIONS])
async def test_get__many_at_once__make_and_allocate_nothing(
    counted: Counted, connections: int
) -> None:
    await counted_gets.many_at_once(counted, AT_ONCE, connections)
