"""The demo's choice of a place for its files."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import demo
import pytest


@pytest.mark.parametrize(("free_copies", "in_memory"), [(demo.COPIES, True), (1, False)])
def test_scratch_place__as_memory_has_room__is_memory_or_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_copies: int, in_memory: bool
) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(1000))
    free = SimpleNamespace(free=1000 * free_copies)
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: free)
    place = demo.scratch_place(source)
    assert place == (Path("/dev/shm") if in_memory else None)
