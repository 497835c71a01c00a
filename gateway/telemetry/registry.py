"""The metrics as Prometheus reads them: every family of the catalogue, collected when asked.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import inf

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.telemetry.catalogue import FAMILIES
from gateway.telemetry.measures import Distribution, Family, Kind, Measured, Sample


class Registry:
    """Whom to ask for numbers, and how they are written. The event loop's thread."""

    def __init__(self) -> None:
        self._sources: list[Measured] = []
        self._registry = CollectorRegistry()
        self._registry.register(_Gateway(self._sources))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def add(self, source: Measured) -> None:
        """Ask it, too, from now on."""
        self._sources.append(source)

    def samples(self) -> Iterator[Sample]:
        """The gateway's own numbers now."""
        for source in self._sources:
            yield from source.metrics()

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All numbers as text, and its content type.

        Args:
            accept: the scraper's Accept header; it may ask for OpenMetrics.
        """
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _Gateway(Collector):
    """The catalogue's families with their samples; those that have none yet are named all the same.

    So a dashboard's query never fails for a metric that merely has not happened.
    """

    def __init__(self, sources: list[Measured]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        samples = defaultdict[Family, list[Sample]](list)
        for source in self._sources:
            for sample in source.metrics():
                samples[sample.family].append(sample)
        for family in FAMILIES:
            yield _metric(family, samples[family])

    def describe(self) -> Iterable[Metric]:
        """The names alone, so that registering asks nobody."""
        return [_metric(family, ()) for family in FAMILIES]


def _metric(family: Family, samples: Iterable[Sample]) -> Metric:
    # prometheus_client keeps a counter's name without its suffix.
    name = family.name.removesuffix("_total") if family.kind is Kind.COUNTER else family.name
    metric = Metric(name, family.help, family.kind.value)
    for sample in samples:
        labels = dict(zip(family.labels, sample.labels, strict=True))
        if isinstance(sample.value, Distribution):
            _add_buckets(metric, family.name, labels, sample.value)
        else:
            metric.add_sample(family.name, labels, sample.value)
    return metric


def _add_buckets(
    metric: Metric, name: str, labels: dict[str, str], distribution: Distribution
) -> None:
    """A histogram's series: cumulated by bound, then all, then their sum."""
    bounds = (*distribution.bounds, inf)
    counts = tuple(accumulate(distribution.counts))
    for bound, count in zip(bounds, counts, strict=True):
        text = "+Inf" if bound == inf else str(float(bound))
        metric.add_sample(f"{name}_bucket", labels | {"le": text}, count)
    metric.add_sample(f"{name}_count", labels, counts[-1])
    metric.add_sample(f"{name}_sum", labels, distribution.total)
