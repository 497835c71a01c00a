"""Which fabric a client's `device` names, and when one on loopback is of no use."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv6Address

import pytest

from gateway.client.errors import UnsupportedError
from gateway.client.fabric import check_answered, check_reach, fabric_config
from gateway.dataplane.failures import CompletionError
from gateway.dataplane.port import CompletionClass, FabricInfo, LinkLayer


def info(address: str) -> FabricInfo:
    gid = IPv6Address(address).packed
    return FabricInfo("soft", "soft", 1, gid, 0, 0, LinkLayer.ETHERNET, 4096, 1 << 31)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("", ("auto", "", "")),
        ("mlx5_0", ("auto", "mlx5_0", "")),
        ("soft", ("soft", "", "")),
        ("soft:192.0.2.7", ("soft", "", "192.0.2.7")),
        ("soft:2001:db8::7", ("soft", "", "2001:db8::7")),
    ],
)
def test_fabric_config__a_device__names_the_fabric(
    device: str, expected: tuple[str, str, str]
) -> None:
    config = fabric_config(device)
    assert (config.fabric, config.device, config.soft_address) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "s3.localhost"])
def test_check_reach__loopback_to_this_host__is_well(host: str) -> None:
    check_reach(info("::ffff:127.3.2.1"), f"http://{host}:9000")


def test_check_reach__own_address_to_another_host__is_well() -> None:
    check_reach(info("::ffff:192.0.2.7"), "http://storage.example:9000")


@pytest.mark.parametrize("blame", [CompletionClass.LOCAL, CompletionClass.REMOTE])
def test_check_answered__the_peer_did_answer__is_no_reason_to_leave(blame: CompletionClass) -> None:
    check_answered(info("::ffff:127.3.2.1"), CompletionError("write", "X", blame, "ERR"))


def test_check_answered__of_a_device__is_to_be_seen() -> None:
    device = replace(info("::ffff:192.0.2.7"), kind="verbs")
    check_answered(device, CompletionError("write", "X", CompletionClass.TRANSPORT, "ERR"))


@pytest.mark.parametrize("host", ["192.0.2.1", "storage.example"])
def test_check_reach__loopback_to_another_host__says_what_to_name(host: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{host} can't reach.*soft:"):
        check_reach(info("::ffff:127.3.2.1"), f"http://{host}:9000")
