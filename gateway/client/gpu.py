"""A GPU's memory: the network card may reach it, this processor does not.

It is named by an address like any other, so registering and moving it are the calls that host
memory has. ibv_reg_mr(3) takes such an address where NVIDIA's module nvidia_peermem is loaded
(https://docs.nvidia.com/cuda/gpudirect-rdma/); elsewhere it would fail with EFAULT, which says
nothing, so that is looked at before. What is not the same: the client computes no checksum of it
(the transport's own, and the gateway's, remain), and neither the soft fabric nor plain HTTP
reaches it. Registration by dma-buf is not made.

Untested on hardware: what is tested is that nothing here touches the address, and every refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

SYSFS = Path("/sys")

_PEER_MODULES = ("nvidia_peermem", "nv_peer_mem")  # since driver 470, and before

CPU_REMEDY = "use tensor.cpu(), or a pinned CPU tensor and a copy"


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """A contiguous array in a GPU's memory; `addr` is of its first byte."""

    addr: int
    length_bytes: int
    readonly: bool


def device_array(buffer: object) -> DeviceArray | None:
    """What ``__cuda_array_interface__`` says (CuPy, Numba); None where a buffer has none.

    https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html

    Raises:
        ValueError: it is not contiguous.
    """
    interface: Mapping[str, Any] | None = getattr(buffer, "__cuda_array_interface__", None)
    if interface is None:
        return None
    item_bytes = int(interface["typestr"][2:])
    shape: tuple[int, ...] = interface["shape"]
    strides = interface.get("strides")
    if strides is not None and not _packed(shape, strides, item_bytes):
        raise ValueError("the array must be contiguous in memory (CuPy: ascontiguousarray)")
    addr, readonly = interface["data"]
    return DeviceArray(addr, prod(shape) * item_bytes, readonly)


def check_peer_memory() -> None:
    """Refuse where the kernel can't give a network card a GPU's memory.

    Raises:
        ValueError: no module does that; the text names the remedy.
    """
    if not any((SYSFS / "module" / name).is_dir() for name in _PEER_MODULES):
        raise ValueError(
            "the memory is a GPU's, and no kernel module gives it to the network card: as root, "
            f"modprobe nvidia_peermem (NVIDIA's driver has it); else {CPU_REMEDY}"
        )


def _packed(shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: int) -> bool:
    """Whether an array has no gaps, in C's order; the stride of an axis of one says nothing."""
    return 0 in shape or all(
        strides[axis] == item_bytes * prod(shape[axis + 1 :])
        for axis, length in enumerate(shape)
        if length > 1
    )
