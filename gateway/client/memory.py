"""Where a transfer's bytes lie on this side: in the caller's buffer, or in a file.

A file's bytes pass through borrowed memory of one part's length. Registering a mapping of the file
itself would be shorter, but the kernel refuses long-term pins of writable file mappings on most
file systems (FOLL_LONGTERM, mm/gup.c), and anonymous memory works on all of them.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from cffi import FFI
from typing_extensions import Buffer, TypeIs

from gateway.client import gpu
from gateway.client.errors import TransferError
from gateway.rdma.aio import to_the_end
from gateway.wire.extent import Extent

_ffi = FFI()

_READ_ONLY = "the buffer is read-only, and a GET writes into it"


class Memory(Protocol):
    """The bytes of one transfer, lent part by part.

    Attributes:
        on_host: whether this processor can touch them; a device can in any case.
    """

    @property
    def on_host(self) -> bool: ...

    def part(self, extent: Extent) -> AbstractAsyncContextManager[memoryview]:
        """Memory that holds, or will take, the bytes of `extent`, relative to the transfer.

        A file that takes bytes is written when the context ends without an error.
        """


class BufferMemory:
    """The caller's own buffer: nothing is copied."""

    def __init__(self, borrowed: Borrowed) -> None:
        self._view = borrowed.view
        self.on_host = borrowed.on_host

    @asynccontextmanager
    async def part(self, extent: Extent) -> AsyncIterator[memoryview]:
        yield self._view[extent.offset_bytes : extent.end_bytes]


class _FileMemory:
    """What reading and writing a file have in common: the borrowed memory, `count` pieces of one.

    Args:
        fd: open, and open until the transfer is over.
        part_bytes: the longest extent that will be asked for, > 0.
        count: how many extents may be out at once, > 0; others wait.

    Attributes:
        memory: all of it. It is taken from the system page by page, as it is used.
    """

    on_host = True

    def __init__(self, fd: int, part_bytes: int, count: int) -> None:
        self._fd = fd
        anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.memory = memoryview(mmap.mmap(-1, part_bytes * count, flags=anonymous))
        self._free = [
            self.memory[start : start + part_bytes]
            for start in range(0, len(self.memory), part_bytes)
        ]
        self._places = asyncio.Semaphore(count)

    @asynccontextmanager
    async def _borrowed(self, length_bytes: int) -> AsyncIterator[memoryview]:
        async with self._places:
            piece = self._free.pop()
            try:
                yield piece[:length_bytes]
            finally:
                self._free.append(piece)


class FileSource(_FileMemory):
    """A file to be sent."""

    @asynccontextmanager
    async def part(self, extent: Extent) -> AsyncIterator[memoryview]:
        async with self._borrowed(extent.length_bytes) as piece:
            await _in_thread(_read, self._fd, piece, extent.offset_bytes)
            yield piece


class FileSink(_FileMemory):
    """A file to be filled."""

    @asynccontextmanager
    async def part(self, extent: Extent) -> AsyncIterator[memoryview]:
        async with self._borrowed(extent.length_bytes) as piece:
            yield piece
            await _in_thread(_write, self._fd, piece, extent.offset_bytes)


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A caller's buffer as a flat run of bytes.

    Attributes:
        view: keeps the buffer alive and of the same size.
        owner: the array or tensor whose memory it is, where its death can be seen; else None.
        on_host: False where it is a GPU's: then the view is an address, and reading it a crash.
    """

    view: memoryview
    owner: object | None = None
    on_host: bool = True


class Tensor(Protocol):
    """What is used of ``torch.Tensor``, which this package does not import."""

    @property
    def is_cuda(self) -> bool: ...
    def is_contiguous(self) -> bool: ...
    def data_ptr(self) -> int: ...
    def numel(self) -> int: ...
    def element_size(self) -> int: ...


def borrow(buffer: Buffer | Tensor, *, writable: bool) -> Borrowed:
    """Any buffer, numpy array or torch tensor, or a GPU's array.

    What was queued on a GPU for its array must be done (``torch.cuda.synchronize()``).

    Raises:
        ValueError: it is not contiguous, read-only where it is to be filled, or in a GPU that the
            network card can't reach.
    """
    if _is_tensor(buffer):
        return _borrow_tensor(buffer)
    if (array := gpu.device_array(buffer)) is not None:
        if writable and array.readonly:
            raise ValueError(_READ_ONLY)
        gpu.check_peer_memory()
        return Borrowed(memory_at(array.addr, array.length_bytes), buffer, on_host=False)
    view = as_bytes(buffer, writable=writable)
    return Borrowed(view, buffer if _is_array(buffer) else None)


def _borrow_tensor(tensor: Tensor) -> Borrowed:
    """By address: a tensor of bfloat16 has no buffer protocol, nor has one that requires grad."""
    if not tensor.is_contiguous():
        raise ValueError("the tensor must be contiguous in memory (torch: contiguous())")
    if tensor.is_cuda:
        gpu.check_peer_memory()
    view = memory_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
    return Borrowed(view, tensor, on_host=not tensor.is_cuda)


def memory_at(addr: int, length_bytes: int) -> memoryview:
    """Memory that somebody else keeps alive."""
    return memoryview(_ffi.buffer(_ffi.cast("uint8_t *", addr), length_bytes))


def address_of(view: memoryview) -> int:
    """Where the first byte is, in this process."""
    with _ffi.from_buffer(view) as start:
        return int(_ffi.cast("uintptr_t", start))


def as_bytes(buffer: Buffer, *, writable: bool) -> memoryview:
    """Any buffer as a flat run of bytes.

    Raises:
        ValueError: it is not contiguous, or read-only where it is to be filled.
    """
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError("the buffer must be contiguous in memory (numpy: ascontiguousarray)")
    if writable and view.readonly:
        raise ValueError(_READ_ONLY)
    # An empty view can't be cast: its shape holds a zero.
    return view.cast("B") if view.nbytes else memoryview(bytearray())


def _is_tensor(buffer: object) -> TypeIs[Tensor]:
    return hasattr(buffer, "data_ptr") and hasattr(buffer, "element_size")


def _is_array(buffer: object) -> bool:
    """Whether numpy frees the memory, and only after it has told who asked (weak references)."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(buffer, numpy.ndarray)


async def _in_thread(
    work: Callable[[int, memoryview, int], None], fd: int, piece: memoryview, offset_bytes: int
) -> None:
    """To its end even when cancelled: the memory is lent again after it."""
    await to_the_end(asyncio.to_thread(work, fd, piece, offset_bytes))


def _read(fd: int, piece: memoryview, offset_bytes: int) -> None:
    done = 0
    while done < len(piece):
        count = os.preadv(fd, [piece[done:]], offset_bytes + done)
        if count == 0:
            raise TransferError("the file became shorter while it was being sent")
        done += count


def _write(fd: int, piece: memoryview, offset_bytes: int) -> None:
    done = 0
    while done < len(piece):
        done += os.pwrite(fd, piece[done:], offset_bytes + done)
