"""A GPU's memory: admitted where the network card can reach it, and never touched from here.

There is no GPU: the arrays say that they are in one, over memory that can be looked at afterwards,
or over an address where any touch would be the end of the process.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_rc_gateway import CHECKSUM, FakeFabric, Rig
from fake_tensor import cuda_tensor

from gateway.client import TransferPath, UnsupportedError, gpu
from gateway.client.memory import address_of, borrow
from gateway.errors import BusyError

SIZE = 4096


def blank() -> np.ndarray:
    return np.zeros(SIZE, np.uint8)


class CudaArray:
    """What CuPy and Numba show of theirs: numpy's description of the same array, version 3."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__cuda_array_interface__ = dict(array.__array_interface__)


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a host without any kernel module."""
    monkeypatch.setattr(gpu, "SYSFS", tmp_path)
    return tmp_path


@pytest.fixture
def peer_memory(sysfs: Path) -> None:
    (sysfs / "module/nvidia_peermem").mkdir(parents=True)


@pytest.mark.parametrize("made_of", [cuda_tensor, CudaArray])
@pytest.mark.usefixtures("sysfs")
def test_borrow__no_peer_memory__names_the_module(made_of: Callable[[np.ndarray], Any]) -> None:
    with pytest.raises(ValueError, match=r"modprobe nvidia_peermem .*tensor\.cpu"):
        borrow(made_of(blank()), writable=True)


@pytest.mark.parametrize("module", ["nvidia_peermem", "nv_peer_mem"])
def test_borrow__peer_memory__is_the_address_and_length(sysfs: Path, module: str) -> None:
    (sysfs / "module" / module).mkdir(parents=True)
    tensor = cuda_tensor(np.zeros((8, 4), np.uint16))
    borrowed = borrow(tensor, writable=True)
    assert (address_of(borrowed.view), len(borrowed.view)) == (tensor.data_ptr(), 64)
    assert (borrowed.owner, borrowed.on_host) == (tensor, False)


@pytest.mark.usefixtures("peer_memory")
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 0), (1, 4, 1)])
@pytest.mark.parametrize("strided", [False, True])
def test_cuda_array__packed__is_its_bytes(shape: tuple[int, ...], strided: bool) -> None:
    array = CudaArray(np.zeros(shape, np.float64))
    if strided:  # an interface may say so of any array, also of one without gaps
        array.__cuda_array_interface__["strides"] = array.array.strides
    assert len(borrow(array, writable=True).view) == array.array.nbytes


@pytest.mark.usefixtures("peer_memory")
def test_cuda_array__with_gaps_or_read_only__names_the_remedy() -> None:
    with pytest.raises(ValueError, match="ascontiguousarray"):
        borrow(CudaArray(np.zeros((8, 8))[:, ::2]), writable=False)
    constant = np.zeros(8)
    constant.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        borrow(CudaArray(constant), writable=True)
    assert len(borrow(CudaArray(constant), writable=False).view) == 64


@pytest.mark.usefixtures("peer_memory")
def test_cuda_tensor__with_gaps__names_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"contiguous\(\)"):
        borrow(cuda_tensor(np.zeros((8, 8))[:, ::2]), writable=False)


@pytest.mark.usefixtures("peer_memory")
@pytest.mark.parametrize("connections", [True, False])
async def test_cuda_tensor__there_and_back__is_the_same(rig: Rig, connections: bool) -> None:
    rig.server.connections.on = connections
    source, target = cuda_tensor(np.arange(SIZE, dtype=np.uint8)), cuda_tensor(blank())
    async with rig.client() as client:
        put = await client.put_from("b", "k", source)
        got = await client.get_into("b", "k", target)
    assert (source.array == target.array).all()
    assert not any(CHECKSUM in seen.headers for seen in rig.server.seen)
    assert (put.path, got.path) == (TransferPath.RDMA, TransferPath.RDMA)


@pytest.mark.usefixtures("peer_memory")
async def test_cuda_tensor__of_many_parts__is_one_object(rig: Rig) -> None:
    rig.server.connections.on = True
    limits = rig.tight(part_bytes=1000)
    source, target = cuda_tensor(np.arange(SIZE, dtype=np.uint8)), cuda_tensor(blank())
    async with rig.client(limits=limits) as client:
        await client.put_from("b", "k", source)
        await client.get_into("b", "k", target)
    assert (source.array == target.array).all()


@pytest.mark.usefixtures("peer_memory")
@pytest.mark.parametrize("op", ["get", "put"])
async def test_no_rdma__a_gpus_memory__is_refused_untouched(rig: Rig, op: str) -> None:
    """The address can't be read or written: any fallback would end this process."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    start = address_of(memoryview(page))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start), mmap.PAGESIZE, 0) == 0
    rig.server.objects["/b/k"] = bytes(mmap.PAGESIZE)
    tensor = cuda_tensor(np.frombuffer(page, np.uint8))
    transfers = {"get": lambda c: c.get_into, "put": lambda c: c.put_from}
    refused = r"turned off for this client; plain HTTP can't reach a GPU's memory: use tensor\.cpu"
    async with rig.client(rdma="never") as client:
        with pytest.raises(UnsupportedError, match=refused):
            await transfers[op](client)("b", "k", tensor)
    assert libc.mprotect(ctypes.c_void_p(start), mmap.PAGESIZE, mmap.PROT_READ) == 0


@pytest.mark.usefixtures("peer_memory")
async def test_soft_fabric__a_gpus_memory__is_refused(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeFabric, "info", replace(FakeFabric.info, kind="soft"))
    async with rig.client() as client:
        with pytest.raises(UnsupportedError, match="copies by the processor"):
            await client.put_from("b", "k", cuda_tensor(blank()))
        assert (await client.put_from("b", "k", bytes(SIZE))).path is TransferPath.RDMA


@pytest.mark.usefixtures("peer_memory")
async def test_device__does_not_take_a_gpus_memory__the_reason_is_told(rig: Rig) -> None:
    rig.fabric.attach_error = BusyError("raise memlock")
    async with rig.client() as client:
        with pytest.raises(UnsupportedError, match="raise memlock; plain HTTP can't reach a GPU's"):
            await client.put_from("b", "k", cuda_tensor(blank()))
        assert (await client.put_from("b", "k", cuda_tensor(np.zeros(0)))).bytes == 0
