"""The compiled module itself: it loads without libibverbs, and its memory outlives its users."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from gateway import _dataplane
from gateway.dataplane import binding


def test_module__needs_no_libibverbs_to_load() -> None:
    module = Path(_dataplane.__file__)
    dynamic = subprocess.run(
        ["readelf", "-d", "--dyn-syms", "-W", module], check=True, capture_output=True, text=True
    ).stdout
    assert "NEEDED" in dynamic
    assert "libibverbs" not in dynamic
    assert "ibv_" not in dynamic


def test_slab__views_outlive_it() -> None:
    slab = binding.slab_map(10_000)
    view = binding.view(slab, 10_000)[5000:]
    del slab
    view[:4] = b"live"
    assert bytes(view[:5]) == b"live\0"


def test_memory_store__errno__becomes_os_error() -> None:
    with pytest.raises(OSError, match="Bad file") as caught:
        binding.memory_store(binding.borrow(b"x", writable=False), 1, -1, 0)
    assert caught.value.errno == errno.EBADF


def test_borrow__read_only_buffer__not_for_writing() -> None:
    with pytest.raises((BufferError, TypeError)):
        binding.borrow(b"constant", writable=True)


def test_names__are_the_verbs_own() -> None:
    assert binding.wc_name(10) == "REM_ACCESS_ERR"
    assert binding.qp_state_name(3) == "RTS"
    assert binding.wc_name(10_000) == "UNKNOWN"


def test_memory_store__whole_buffer__lands_in_the_file(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    binding.memory_store(binding.borrow(b"abc", writable=False), 3, fd, 2)
    assert os.pread(fd, 9, 0) == b"\0\0abc"
    os.close(fd)
