"""What a room offers for the metrics: numbers of its own, asked for when somebody looks.

A room counts in plain integers where it works, and is asked at each scrape; so a metric costs
nothing while requests run. The names are the catalogue's (``gateway.telemetry.catalogue``); how
they are written for Prometheus is ``gateway.telemetry.registry``'s.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

PREFIX = "s3rdma_"


class Kind(Enum):
    """What a number does over time, in Prometheus' words."""

    COUNTER = "counter"  # only grows, until the process ends; its name ends in _total
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Distribution:
    """How often values fell below each of some bounds. One thread writes, another may read.

    Args:
        bounds: ascending; above the last is a class of its own.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value; at a bound it belongs to the class below (Prometheus' ``le``)."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: with the prefix and the unit, as Prometheus shows it.
        help: one line: what it counts.
        labels: names, in the order that `sample` takes their values.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def sample(self, value: float | Distribution, *labels: str) -> Sample:
        """Its value now. Label values come from small sets, never from a client."""
        return Sample(self, value, labels)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a family; a `Distribution` for a histogram."""

    family: Family
    value: float | Distribution
    labels: tuple[str, ...]


@runtime_checkable
class Measured(Protocol):
    """Whoever can be asked for numbers. Called in the event loop's thread; it must not wait."""

    def metrics(self) -> Iterable[Sample]:
        """Its numbers now."""
