"""The soft fabric's settings as C takes them, and what is said where it can't be opened."""

from __future__ import annotations

import errno
import os
import re
import socket
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from gateway.config import MIB, RdmaConfig
from gateway.dataplane import soft
from gateway.dataplane.port import FabricUnavailable

MAPPED_BYTES = 256 * MIB


def resident_bytes() -> int:
    """Of this process (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_options__no_address__leaves_the_choice_to_c() -> None:
    assert soft.options(RdmaConfig())["address"] == bytes(16)


@pytest.mark.parametrize(
    ("text", "expected"), [("192.0.2.7", "::ffff:192.0.2.7"), ("2001:db8::7", "2001:db8::7")]
)
def test_options__an_address__is_sixteen_bytes(text: str, expected: str) -> None:
    options = soft.options(RdmaConfig(soft_address=text))
    assert options["address"] == IPv6Address(expected).packed


def test_options__carriers__are_three_of_cs_numbers() -> None:
    words = ("auto", "udp", "local")
    numbers = [soft.options(RdmaConfig(soft_carrier=word))["carrier"] for word in words]
    assert numbers == [0, 1, 2]


def test_options__networks__are_mapped() -> None:
    options = soft.options(RdmaConfig(allowed_networks=("10.0.0.0/8", "fd00::/8")))
    assert options["network_count"] == 2
    assert options["networks"] == [
        {"address": IPv6Address("::ffff:10.0.0.0").packed, "prefix_bits": 104},
        {"address": IPv6Address("fd00::").packed, "prefix_bits": 8},
    ]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (RdmaConfig(soft_address="rxe0"), "soft_address 'rxe0' is no IP address"),
        (RdmaConfig(allowed_networks=("10.0.0.1/8",)), "'10.0.0.1/8' is no network"),
        (RdmaConfig(allowed_networks=("10.0.0.0/8",) * 33), "at most 32"),
    ],
)
def test_options__malformed__says_so(config: RdmaConfig, text: str) -> None:
    with pytest.raises(FabricUnavailable, match=text):
        soft.options(config)


def test_map_zeros__untouched__is_no_memory_yet() -> None:
    _, view = soft.map_zeros(MAPPED_BYTES)
    before = resident_bytes()
    assert view[0] == view[-1] == 0
    view[MAPPED_BYTES // 2] = 1
    assert resident_bytes() - before < MAPPED_BYTES // 8


def test_map_zeros__no_room__is_an_oserror() -> None:
    with pytest.raises(OSError, match="allocate"):
        soft.map_zeros(1 << 60)


@pytest.mark.parametrize(
    ("address", "code", "text"),
    [
        ("10.0.0.5", errno.EADDRINUSE, "UDP port 4791 of 10.0.0.5 is taken.*of its own.*rdma_rxe"),
        ("", errno.EADDRINUSE, "4791 is taken on every address.*modprobe -r rdma_rxe"),
        ("10.0.0.5", errno.EADDRNOTAVAIL, "10.0.0.5 is no address of an interface.*ip address"),
        ("fd00::5", errno.EAFNOSUPPORT, "fd00::5 is no address of an interface that is up"),
        ("", errno.ENETDOWN, "no address of 127.0.0.0/8.*ip link set lo up.*IPv6 addresses"),
        ("", errno.EADDRNOTAVAIL, "no address of 127.0.0.0/8"),
        ("", errno.EAFNOSUPPORT, "no address of 127.0.0.0/8"),
        ("", errno.EPERM, "may not open UDP sockets.*seccomp"),
        ("", errno.EACCES, "may not open UDP sockets.*RestrictAddressFamilies"),
        ("", errno.EMFILE, "too many files are open.*ulimit -n.*LimitNOFILE"),
        ("10.0.0.5", errno.ENOMEM, "can't be opened on 10.0.0.5 .*rdma.fabric = off"),
    ],
)
def test_unavailable__an_errno__is_reason_and_remedy(address: str, code: int, text: str) -> None:
    error = soft.unavailable(RdmaConfig(soft_address=address), OSError(code, os.strerror(code)))
    assert re.search(text, str(error))


def test_problem__on_this_host__is_none() -> None:
    assert soft.problem(RdmaConfig()) is None


@pytest.mark.parametrize(
    ("address", "text"),
    [("192.0.2.7", "192.0.2.7 is no address"), ("rxe0", "'rxe0' is no IP address")],
)
def test_problem__address_that_is_not_ours__says_so(address: str, text: str) -> None:
    found = soft.problem(RdmaConfig(soft_address=address))
    assert found is not None
    assert text in found.reason


def test_problem__port_is_taken__says_so() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.77.1.1", 4791))
        found = soft.problem(RdmaConfig(soft_address="127.77.1.1"))
    assert found is not None
    assert found.reason == "UDP port 4791 of 127.77.1.1 is taken"


@pytest.mark.parametrize(
    ("config", "may"),
    [
        (RdmaConfig(), True),
        (RdmaConfig(device="mlx5_0"), False),
        (RdmaConfig(fabric="verbs"), False),
    ],
)
def test_may_stand_in__only_where_nothing_else_was_asked_for(config: RdmaConfig, may: bool) -> None:
    assert soft.may_stand_in(config) is may
