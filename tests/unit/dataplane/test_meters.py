"""meters: every number that a fabric keeps is a metric."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gateway.dataplane.census import FabricCounters, FabricUsage, Occupancy
from gateway.dataplane.meters import counted, used

UNIQUE = 1_000


def numbered(kind: type[Any], first: int, **given: Any) -> Any:
    """A value of a dataclass whose fields are numbers that no other field has."""
    plain = [one.name for one in fields(kind) if one.name not in given]
    return kind(**{name: first + at for at, name in enumerate(plain)}, **given)


def test_counted__every_field__is_a_sample_of_its_own() -> None:
    completions = {"SUCCESS": 7, "RETRY_EXC_ERR": 8}
    counters = numbered(FabricCounters, UNIQUE, completions=completions)
    values = sorted(one.value for one in counted(counters))
    numbers = [getattr(counters, one.name) for one in fields(counters)]
    assert values == sorted([*completions.values(), *(n for n in numbers if isinstance(n, int))])


def test_used__every_field__is_a_sample_of_its_own() -> None:
    usage = FabricUsage(
        lanes=numbered(Occupancy, 10),
        connections=numbered(Occupancy, 20),
        slots_in_use=30,
        slots_total=71,
        slot_bytes=50,
        slot_waiters={"AK1": 60, "AK2": 1},
    )
    values = sorted(one.value for one in used(usage))
    assert values == [10, 11, 12, 20, 21, 22, 30, 41, 50, 61]
    assert len(values) == 2 * len(fields(Occupancy)) + len(fields(FabricUsage)) - 2
