"""Which port and which GID: PROTOCOL.md section 5.2, and reasons a newcomer can act on."""

from __future__ import annotations

import errno
import ipaddress
import os
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.dataplane import binding
from gateway.dataplane.devices import (
    DeviceInfo,
    Gid,
    GidType,
    choose_gid,
    choose_port,
    list_devices,
)
from gateway.dataplane.port import FabricUnavailable, LinkLayer


def gid(index: int, address: str, kind: GidType = GidType.ROCE_V2) -> Gid:
    return Gid(index, ipaddress.IPv6Address(address).packed, kind)


ROCE = DeviceInfo(
    "mlx5_0",
    port=1,
    gids=(
        gid(0, "fe80::1", GidType.ROCE_V1),
        gid(1, "fe80::1"),
        gid(2, "::ffff:10.0.0.1", GidType.ROCE_V1),
        gid(3, "2001:db8::1"),
        gid(4, "::ffff:10.0.0.1"),
        gid(5, "::ffff:10.0.0.2"),
    ),
)
DOWN = DeviceInfo("mlx5_1", port=1, problem="the port is not ACTIVE")


def without(info: DeviceInfo, *indexes: int) -> DeviceInfo:
    return replace(info, gids=tuple(gid for gid in info.gids if gid.index not in indexes))


@pytest.mark.parametrize(
    ("gone", "index"),
    [((), 4), ((4,), 5), ((4, 5), 3), ((3, 4, 5), 1)],
)
def test_choose_gid__roce__v2_by_ipv4_then_ipv6_then_link_local(
    gone: tuple[int, ...], index: int
) -> None:
    chosen = choose_gid(without(ROCE, *gone), -1)
    assert chosen is not None
    assert chosen.index == index


def test_choose_gid__only_v1__none() -> None:
    assert choose_gid(without(ROCE, 1, 3, 4, 5), -1) is None


def test_choose_gid__infiniband__the_ib_entry() -> None:
    port = DeviceInfo(
        "ib0", 1, link_layer=LinkLayer.INFINIBAND, gids=(gid(0, "fe80::9", GidType.IB),)
    )
    assert choose_gid(port, -1) == port.gids[0]


@pytest.mark.parametrize(("index", "found"), [(2, True), (0, True), (6, False)])
def test_choose_gid__configured_index__wins_over_type(index: int, found: bool) -> None:
    chosen = choose_gid(ROCE, index)
    assert (chosen is not None and chosen.index == index) == found


def test_choose_port__first_usable_of_several() -> None:
    assert choose_port((DOWN, ROCE), "", 1, -1)[0] is ROCE


@pytest.mark.parametrize(
    ("devices", "device", "port", "gid_index", "reason"),
    [
        ((), "", 1, -1, "no RDMA device"),
        ((ROCE,), "mlx5_9", 1, -1, "no RDMA device 'mlx5_9'.*mlx5_0"),
        ((ROCE,), "", 2, -1, "mlx5_0 has no port 2.*rdma.port"),
        ((DOWN,), "", 1, -1, "mlx5_1 port 1: the port is not ACTIVE"),
        ((DOWN, ROCE), "mlx5_1", 1, -1, "not ACTIVE"),
        ((ROCE,), "", 1, 9, "mlx5_0 port 1: it has no usable GID"),
        ((DeviceInfo("x", problem="it can't be opened"),), "", 1, -1, "can't be opened"),
    ],
)
def test_choose_port__nothing_usable__says_why(
    devices: tuple[DeviceInfo, ...], device: str, port: int, gid_index: int, reason: str
) -> None:
    with pytest.raises(FabricUnavailable, match=reason):
        choose_port(devices, device, port, gid_index)


@pytest.mark.parametrize(
    ("code", "reason", "remedy"),
    [
        (errno.ELIBACC, "not installed", "libibverbs1"),
        (errno.ELIBBAD, "too old", "rdma-core 32"),
        (errno.ENOSYS, "kernel has no RDMA", "rdma_rxe"),
        (errno.EACCES, "Permission denied", "dmesg"),
    ],
)
def test_list_devices__no_library_or_kernel__reason_and_remedy(
    monkeypatch: pytest.MonkeyPatch, code: int, reason: str, remedy: str
) -> None:
    def refuse(_convert: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(binding, "port_list", refuse)
    with pytest.raises(FabricUnavailable) as caught:
        list_devices()
    assert reason in caught.value.reason
    assert remedy in caught.value.remedy


def row(**changes: object) -> SimpleNamespace:
    fields: dict[str, object] = {
        "device": "fake0",
        "firmware": "7",
        "error": 0,
        "port": 1,
        "transport": binding.TRANSPORT_IB,
        "link": binding.LINK_ETHERNET,
        "state": 4,
        "lid": 0,
        "mtu_bytes": 1024,
        "mtu_max_bytes": 4096,
        "message_max_bytes": 1 << 30,
        "qp_max": 5,
        "cqe_max": 6,
        "mr_max": 7,
    }
    return SimpleNamespace(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"error": -errno.EACCES}, "can't be opened: Permission denied"),
        ({"transport": binding.TRANSPORT_IWARP}, "iWARP"),
        ({"transport": 0}, "neither InfiniBand nor RoCE"),
        ({"state": 1}, "not ACTIVE"),
        ({"link": binding.LINK_INFINIBAND}, "no LID"),
        ({"link": binding.LINK_INFINIBAND, "lid": 4}, ""),
    ],
)
def test_list_devices__each_problem__is_named(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], problem: str
) -> None:
    info = listed(monkeypatch, row(**changes), [gid(0, "::ffff:10.0.0.1")])
    assert problem in info.problem
    assert bool(problem) == bool(info.problem)


def test_list_devices__ethernet_without_roce_v2__wants_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = listed(monkeypatch, row(), [gid(0, "fe80::1", GidType.ROCE_V1)])
    assert "IP address" in info.problem
    assert (info.state, info.mtu_bytes, info.max_qps) == ("ACTIVE", 1024, 5)


def listed(monkeypatch: pytest.MonkeyPatch, port: SimpleNamespace, gids: list[Gid]) -> DeviceInfo:
    """What list_devices makes of one row of C's."""

    def port_list(convert: Callable[[Any], DeviceInfo]) -> list[DeviceInfo]:
        return [convert(port)]

    monkeypatch.setattr(binding, "port_list", port_list)
    monkeypatch.setattr(binding, "gid_list", lambda *_: gids)
    monkeypatch.setattr(binding, "text", str)
    (info,) = list_devices()
    return info
