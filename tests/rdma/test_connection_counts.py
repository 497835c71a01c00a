"""Requests on connections that stay make nothing anew on the kernel's device."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import counted_gets
import pytest
from counted_gets import CONNECTIONS, Counted

pytestmark = [pytest.mark.rdma, pytest.mark.timeout(300)]

REQUESTS = 1000
AT_ONCE = 64


@pytest.fixture
async def counted(
    devices: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Counted]:
    rdma = counted_gets.config(fabric="verbs", device=devices[0])
    async with counted_gets.counted(tmp_path, rdma, devices[-1], monkeypatch) as both:
        yield both


async def test_get__thousand_one_by_one_then_many_at_once__make_and_allocate_nothing(
    counted: Counted,
) -> None:
    await counted_gets.one_after_the_other(counted, REQUESTS)
    await counted_gets.many_at_once(counted, AT_ONCE, 1)
    await counted_gets.many_at_once(counted, AT_ONCE, CONNECTIONS)
