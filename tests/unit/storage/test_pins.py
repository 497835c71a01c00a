"""Files outlive their objects for as long as somebody reads them, and no longer."""

import os
from pathlib import Path

import pytest

from gateway.config import Durability
from gateway.storage.files import DataFiles
from gateway.storage.pieces import Dropped
from gateway.storage.pins import Pins


@pytest.fixture
def files(tmp_path: Path) -> DataFiles:
    made = DataFiles(tmp_path, Durability.NONE)
    made.prepare()
    return made


@pytest.fixture
def pins(files: DataFiles) -> Pins:
    return Pins(files)


def content(files: DataFiles, count: int) -> Dropped:
    """Data files that belong together."""
    made = [files.create(0) for _ in range(count)]
    for fd, name in made:
        files.publish(fd, name)
        os.close(fd)
    return Dropped("content", tuple(name for _, name in made))


def left(files: DataFiles) -> int:
    return sum(map(len, files.by_directory()))


def test_drop__nobody_reads__removed_at_once(files: DataFiles, pins: Pins) -> None:
    pins.drop([content(files, 2), content(files, 1)])
    assert left(files) == 0


def test_drop__two_readers_in_two_processes__removed_after_the_last(
    files: DataFiles, pins: Pins
) -> None:
    many, elsewhere = content(files, 3), Pins(files)
    first, second = pins.pin(many.files[0]), elsewhere.pin(many.files[0])
    assert first is not None
    assert second is not None
    pins.drop([many])
    assert left(files) == 3
    os.close(first)
    pins.drop([many])
    assert left(files) == 3
    os.close(second)
    elsewhere.drop([many])
    assert left(files) == 0


def test_drop__first_file_gone_already__the_rest_goes_too(files: DataFiles, pins: Pins) -> None:
    many = content(files, 3)
    files.remove(many.files[:1])
    pins.drop([many])
    assert left(files) == 0


def test_pin__file_gone__none(files: DataFiles, pins: Pins) -> None:
    many = content(files, 2)
    pins.drop([many])
    assert pins.pin(many.files[0]) is None
