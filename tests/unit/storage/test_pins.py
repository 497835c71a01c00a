"""Files outlive their objects for as long as somebody reads them, and no longer."""

import pytest

from gateway.storage.pieces import Dropped
from gateway.storage.pins import Pins


@pytest.fixture
def removed() -> list[str]:
    return []


@pytest.fixture
def pins(removed: list[str]) -> Pins:
    return Pins(removed.extend)


def test_drop__nobody_reads__removed_at_once(pins: Pins, removed: list[str]) -> None:
    pins.drop([Dropped("c", ("1", "2"))])
    assert removed == ["1", "2"]


def test_drop__two_readers__removed_after_the_last(pins: Pins, removed: list[str]) -> None:
    pins.pin("c")
    pins.pin("c")
    pins.drop([Dropped("c", ("1",)), Dropped("d", ("2",))])
    pins.drop([Dropped("c", ("3",))])
    assert removed == ["2"]
    pins.unpin("c")
    assert removed == ["2"]
    pins.unpin("c")
    assert removed == ["2", "1", "3"]
    pins.drop([Dropped("c", ("4",))])
    assert removed[-1] == "4"
