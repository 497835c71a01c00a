"""The kernel's Soft-RoCE and our soft fabric on one host, each in a network namespace of its own.

rxe binds UDP 4791 of every address of the first namespace, hence the second one. A socket stays in
the namespace of the thread that made it (setns(2)), and a child process is born into its parent
thread's: so one test process has a foot in both.

The subnet is nobody else's. Were one of its addresses also local to the first namespace, as the
rig's 10.77.0.2 is, TCP to it would never leave the host, and answers to it would be lost.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

NAMESPACE = "soft"
DEVICE = "rxe7"
KERNEL, SOFT, SOFT_TOO = "10.78.0.1", "10.78.0.2", "10.78.0.3"  # a soft fabric has its own
_KERNEL_END, _SOFT_END = "sv0", "sv1"
_LINK_MTU_BYTES = {1024: 1500, 4096: 4200}  # by the path MTU that fits in it


@contextmanager
def joined_namespaces() -> Iterator[None]:
    """A veth pair: rxe on our end, the namespace of the soft fabric at the other."""
    _run(
        f"ip netns add {NAMESPACE}",
        f"ip link add {_KERNEL_END} type veth peer name {_SOFT_END} netns {NAMESPACE}",
        f"ip address add {KERNEL}/24 dev {_KERNEL_END}",
        f"ip -n {NAMESPACE} address add {SOFT}/24 dev {_SOFT_END}",
        f"ip -n {NAMESPACE} address add {SOFT_TOO}/24 dev {_SOFT_END}",
        f"ip -n {NAMESPACE} link set lo up",
    )
    set_path_mtu(4096)
    _run(
        f"ip link set {_KERNEL_END} up",
        f"ip -n {NAMESPACE} link set {_SOFT_END} up",
        f"rdma link add {DEVICE} type rxe netdev {_KERNEL_END}",
    )
    try:
        yield
    finally:
        _run(f"rdma link delete {DEVICE}", f"ip netns delete {NAMESPACE}")


def set_path_mtu(mtu_bytes: int) -> None:
    """Make 1024 or 4096 the path MTU that both ends choose when they are opened next."""
    link_bytes = _LINK_MTU_BYTES[mtu_bytes]
    _run(
        f"ip link set {_KERNEL_END} mtu {link_bytes}",
        f"ip -n {NAMESPACE} link set {_SOFT_END} mtu {link_bytes}",
    )


@contextmanager
def in_namespace() -> Iterator[None]:
    """Sockets and processes that this thread makes meanwhile belong to the soft side."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{NAMESPACE}") as other:
        assert libc.setns(other.fileno(), 0) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            assert libc.setns(home.fileno(), 0) == 0


def _run(*commands: str) -> None:
    for command in commands:
        subprocess.run(command.split(), check=True, capture_output=True)
