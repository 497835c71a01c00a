"""admin: where the listener may be, and what it says where it can't."""

from __future__ import annotations

import socket
import time

import pytest
from loopback_fabric import LoopbackFabric, Wire
from loopback_gateway import LoopbackGateway

from gateway.app.admin import check_admin, readiness, start_admin, tls_of_admin
from gateway.app.errors import StartError
from gateway.config import AdminConfig, Config, TlsConfig
from gateway.storage.memory import MemoryStorage
from gateway.telemetry.recent import RecentErrors
from gateway.telemetry.registry import Registry
from gateway.web.admin_readiness import Readiness
from gateway.web.admin_status import Status
from gateway.web.server import Server


def status(worker: int = 0) -> Status:
    gateway = LoopbackGateway(rdma_off=True)
    return Status(worker, Registry(), gateway.rdma, None, "off", RecentErrors(), time.time, 0.0)


def ready() -> Readiness:
    return Readiness({}, 1, 1, time.monotonic)


@pytest.mark.parametrize(
    "config",
    [
        AdminConfig(),
        AdminConfig(host="::1"),
        AdminConfig(host=""),
        AdminConfig(host="0.0.0.0", tls=True, client_ca="ca.pem"),
        AdminConfig(host="0.0.0.0", insecure=True),
    ],
)
def test_check__meant_that_way__is_admitted(config: AdminConfig) -> None:
    check_admin(config)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example"])
@pytest.mark.parametrize("tls", [False, True])
def test_check__others_could_reach_it__is_refused_with_the_remedy(host: str, tls: bool) -> None:
    with pytest.raises(StartError, match=r"admin\.tls and admin\.client_ca, or admin\.insecure"):
        check_admin(AdminConfig(host=host, tls=tls))


def test_tls_of_admin__same_certificate__but_its_own_clients() -> None:
    tls = TlsConfig(certificate="cert.pem", client_ca="clients.pem")
    on = Config(tls=tls, admin=AdminConfig(tls=True, client_ca="operators.pem"))
    assert tls_of_admin(on) == TlsConfig(certificate="cert.pem", client_ca="operators.pem")
    assert tls_of_admin(Config(tls=tls)) == TlsConfig()


async def test_start__port_taken__names_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = AdminConfig(port=taken.getsockname()[1])
        with pytest.raises(StartError, match=r"for admin\.port: .*; set admin\.port"):
            await start_admin(config, status(), ready(), None)


async def test_start__second_worker__takes_the_next_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server, text = await start_admin(AdminConfig(port=port - 1), status(worker=1), ready(), None)
    await server.stop()
    assert text == f"s3rdma: admin http://127.0.0.1:{port}\n"


async def test_start__tls_without_a_certificate__is_refused() -> None:
    with pytest.raises(StartError, match=r"admin\.tls needs tls\.certificate"):
        await start_admin(AdminConfig(tls=True), status(), ready(), None)


async def test_readiness__parts_of_a_gateway__are_tried_for_real() -> None:
    gateway, fabric = LoopbackGateway(), LoopbackFabric(Wire(), [(2, 4096)])
    server = Server(gateway.pipeline.config, gateway.pipeline)
    tried = readiness(AdminConfig(check_interval_s=0), MemoryStorage(), fabric, server)
    before = await tried.verdict()
    assert before["http"] == "The gateway does not take connections now."
    assert (before["storage"], before["fabric"]) == ("", "")
    assert fabric.calls["lease"] == 2
    fabric.healthy = False
    assert (await tried.verdict())["fabric"] == "RDMA port loop0/1 is down."
    await server.stop()
