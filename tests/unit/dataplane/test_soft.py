"""The soft fabric's settings as C takes them, and what is said where it can't be opened."""

from __future__ import annotations

import errno
import os
import re
from ipaddress import IPv6Address

import pytest

from gateway.config import RdmaConfig
from gateway.dataplane import soft
from gateway.dataplane.port import FabricUnavailable


def test_options__no_address__leaves_the_choice_to_c() -> None:
    assert soft.options(RdmaConfig())["address"] == bytes(16)


@pytest.mark.parametrize(
    ("text", "expected"), [("192.0.2.7", "::ffff:192.0.2.7"), ("2001:db8::7", "2001:db8::7")]
)
def test_options__an_address__is_sixteen_bytes(text: str, expected: str) -> None:
    options = soft.options(RdmaConfig(soft_address=text))
    assert options["address"] == IPv6Address(expected).packed


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


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.EADDRINUSE, "UDP port 4791 of 10.0.0.5 is taken.*rdma_rxe"),
        (errno.EADDRNOTAVAIL, "10.0.0.5 is no address of an interface that is up"),
        (errno.ENETDOWN, "10.0.0.5 is no address of an interface that is up"),
        (errno.EMFILE, "can't be opened on 10.0.0.5 .*rdma.fabric = off"),
    ],
)
def test_unavailable__an_errno__is_reason_and_remedy(code: int, text: str) -> None:
    error = soft.unavailable(RdmaConfig(soft_address="10.0.0.5"), OSError(code, os.strerror(code)))
    assert re.search(text, str(error))
