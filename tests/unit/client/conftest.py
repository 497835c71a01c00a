"""The client's tests run against a fake gateway and a fake fabric (tests/support)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from fake_rc_gateway import Rig, running_rig


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    async with running_rig(monkeypatch) as running:
        yield running
