"""Settings that all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from s3_servers import S3Server, require_rgw, running_moto, running_rgw

# Gateways that tests start by themselves are many at once, and all would want one port.
os.environ["S3RDMA_ADMIN_PORT"] = "0"

# What a shell starts in its background ignores Ctrl-C, and so would every child of ours.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine stalls for longer than hypothesis's deadline; pytest-timeout bounds the tests.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("short", _PATIENT)
settings.register_profile("long", _PATIENT, max_examples=2_000)  # make fuzz
settings.load_profile("short")


@pytest.fixture(scope="session")
def rgw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real Ceph, for all tests that clean up behind themselves."""
    require_rgw()
    with running_rgw(tmp_path_factory.mktemp("rgw")) as server:
        yield server


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Another S3 server, of another kind."""
    with running_moto(tmp_path_factory.mktemp("moto")) as server:
        yield server
