"""reload: what SIGHUP changes, and what it must not."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from gateway.app.reload import Reload
from gateway.app.systemd import ServiceManager
from gateway.config import Config, LogConfig
from gateway.config.load import ConfigError
from gateway.telemetry.catalogue import RELOADS

NEW = Config(log=LogConfig(level="debug"))


def outcomes(reload: Reload) -> dict[str, float]:
    return {one.labels[0]: one.value for one in reload.metrics() if one.family is RELOADS}


def test_reload__new_settings__reach_everybody_in_order() -> None:
    seen: list[tuple[str, str]] = []
    reload = Reload(lambda: NEW, ServiceManager({}))
    reload.on_reload(lambda config: seen.append(("first", config.log.level)))
    reload.on_reload(lambda config: seen.append(("second", config.log.level)))
    reload.reload()
    assert seen == [("first", "debug"), ("second", "debug")]
    assert outcomes(reload) == {"done": 1, "refused": 0}


def test_reload__broken_settings__change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def read() -> Config:
        raise ConfigError("s3rdma.toml: limits.burst_s: 0 is out of range")

    seen: list[Config] = []
    reload = Reload(read, ServiceManager({}))
    reload.on_reload(seen.append)
    reload.reload()
    assert not seen
    assert "the old settings stay: s3rdma.toml: limits.burst_s" in caplog.text
    assert outcomes(reload) == {"done": 0, "refused": 1}


async def test_listen__sighup__reloads() -> None:
    seen: asyncio.Queue[Config] = asyncio.Queue()
    reload = Reload(lambda: NEW, ServiceManager({}))
    reload.on_reload(seen.put_nowait)
    reload.listen()
    os.kill(os.getpid(), signal.SIGHUP)
    assert await asyncio.wait_for(seen.get(), 5) == NEW
    asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
