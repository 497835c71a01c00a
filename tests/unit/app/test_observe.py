"""observe: what is told while it lasts, and what can't be."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway import __version__
from gateway.app.errors import StartError
from gateway.app.observe import observing
from gateway.config import LogConfig
from gateway.telemetry import RequestRecord, Trail, every

RECORD = RequestRecord(Trail(operation="GetObject"), "GET", "/b/k", 200, 0, 3, 0.1, "192.0.2.1")


def test_observing__a_request_ends__everybody_is_told(tmp_path: Path) -> None:
    access = tmp_path / "access"
    with observing(LogConfig(access=str(access))) as observed:
        every(observed.recorders)(RECORD)
        logging.getLogger("gateway.test_observe").warning("look at this")
        text = observed.registry.exposition("")[0].decode()
    assert f's3rdma_build_info{{version="{__version__}"}} 1.0' in text
    assert 's3rdma_requests_total{operation="GetObject",status="200"} 1.0' in text
    assert 's3rdma_log_lines_total{level="warning"} 1.0' in text
    assert "REST.GET.OBJECT" in access.read_text()
    logging.getLogger("gateway.test_observe").warning("nobody listens")
    assert len(observed.recent.newest()) == 1


def test_observing__access_log_cant_be_written__names_the_setting(tmp_path: Path) -> None:
    config = LogConfig(access=str(tmp_path / "none" / "access"))
    with pytest.raises(StartError, match=r"log\.access: .*No such file"), observing(config):
        pass
