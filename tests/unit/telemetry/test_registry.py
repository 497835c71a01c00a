"""registry: what Prometheus reads, judged by its own parser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from gateway.telemetry.catalogue import (
    COMMIT_CHANGES,
    FAMILIES,
    REQUESTS,
    RUNNING,
)
from gateway.telemetry.measures import Distribution, Kind, Sample
from gateway.telemetry.registry import Registry


class Source:
    """Three samples, one of each kind."""

    def __init__(self) -> None:
        self.sizes = Distribution((1, 2, 4))
        for size in (1, 2, 2, 3, 9):
            self.sizes.observe(size)

    def metrics(self) -> Iterator[Sample]:
        yield REQUESTS.sample(7, "GetObject", "200")
        yield RUNNING.sample(2)
        yield COMMIT_CHANGES.sample(self.sizes)


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.add(Source())
    return made


def test_exposition__each_kind__reads_back_as_it_was(registry: Registry) -> None:
    text, content_type = registry.exposition("")
    families = {one.name: one for one in text_string_to_metric_families(text.decode())}
    assert content_type.startswith("text/plain; version=")
    (requests,) = families["s3rdma_requests"].samples
    assert (requests.value, requests.labels) == (7, {"operation": "GetObject", "status": "200"})
    (running,) = families["s3rdma_requests_running"].samples
    assert running.value == 2
    changes = {
        (one.name.rpartition("_")[2], one.labels.get("le")): one.value
        for one in families["s3rdma_commit_changes"].samples
    }
    assert changes == {
        ("bucket", "1.0"): 1,
        ("bucket", "2.0"): 3,
        ("bucket", "4.0"): 4,
        ("bucket", "+Inf"): 5,
        ("count", None): 5,
        ("sum", None): 17,
    }


def test_exposition__openmetrics_wanted__is_that(registry: Registry) -> None:
    text, content_type = registry.exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert "s3rdma_requests" in {one.name for one in openmetrics_families(text.decode())}


def test_exposition__nothing_counted_yet__names_every_family() -> None:
    text = Registry().exposition("")[0].decode()
    typed = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert {one.name: typed.get(one.name) for one in FAMILIES} == {
        one.name: one.kind.value for one in FAMILIES
    }


def test_exposition__process__tells_its_memory(registry: Registry) -> None:
    assert b"process_resident_memory_bytes " in registry.exposition("")[0]


def test_catalogue__names__follow_prometheus_habits() -> None:
    names = [one.name for one in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert re.fullmatch(r"s3rdma_[a-z0-9_]+", family.name), family.name
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER), family.name
        assert not re.search(r"_(ms|us|kib|mib|percent)(_|$)", family.name), family.name
        assert family.help.endswith("."), family.name


def test_sample__another_number_of_labels__is_refused(registry: Registry) -> None:
    class Wrong:
        def metrics(self) -> Iterator[Sample]:
            yield REQUESTS.sample(1, "GetObject")

    registry.add(Wrong())
    with pytest.raises(ValueError, match="zip"):
        registry.exposition("")
