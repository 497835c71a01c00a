"""The table and the bars of what was measured, and what a busy server does to a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_rc_gateway import Rig, Seen, error, running_rig, xml

from gateway.cli.benchmark import measure
from gateway.cli.benchmark.measure import Bench, Cell, Measurement, Operation, Plan, Way
from gateway.cli.benchmark.table import bars, ratio_to_http, table
from gateway.client import Client


def measured(way: Way, transfers_per_s: float, size_bytes: int = 1_000_000) -> Measurement:
    cell = Cell(Operation.GET, size_bytes, 1, way)
    transfers = int(transfers_per_s * 10)
    return Measurement(cell, transfers, 10.0, 2.5, 0.001, 0.002, 1.5)


ROWS = [measured(Way.RC, 1500), measured(Way.HTTP, 500), measured(Way.RC, 7, 4096)]


def test_table__of_measurements__has_ratios_and_whole_digits() -> None:
    head, rc, http, alone = table(ROWS)
    assert head.split()[:4] == ["size", "at", "once", "way"]
    assert rc.split()[4:] == ["1", "2", "1500", "1500", "1500", "0.179", "3.00"]
    assert http.split()[-1] == "1.00"
    assert alone.split()[:4] == ["GET", "4KiB", "1", "rc"]
    assert ratio_to_http(ROWS[2], ROWS) is None
    assert len({line.index("MB/s") for line in (head,)}) == 1


def test_bars__of_a_group__are_as_long_as_their_rates() -> None:
    title, rc, http, *_ = bars(ROWS)
    assert title == "GET 1000000, 1 at once"
    assert rc.count("█") == 40
    assert http.count("█") == 13
    assert "▍" in http
    assert "500 MB/s" in http


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:  # type: ignore[misc]
    monkeypatch.setattr(measure, "SETTLE_S", 0.0)
    async with running_rig(monkeypatch) as running:
        running.server.hooks.append(_listing)
        yield running


def _listing(seen: Seen) -> object:
    return xml("ListBucketResult", "") if "list-type" in seen.raw_path else None


def bench(rig: Rig, ways: tuple[Way, ...] = (Way.HTTP,)) -> Bench:
    plan = Plan("b", (1000,), (2,), (Operation.PUT, Operation.GET), ways, 0.0)

    def client(way: Way) -> Client:
        limits = rig.tight(attempts=1)
        return rig.client(rdma=way.mode, protocol=way.protocol, limits=limits)

    return Bench(plan, client, lambda _cell: None)


async def test_run__server_is_busy__goes_on_and_tells(rig: Rig) -> None:
    def busy(seen: Seen) -> object:
        return error(503, "SlowDown", "no lane") if seen.raw_path.endswith("/1000/1") else None

    rig.server.hooks.append(busy)  # type: ignore[arg-type]
    run = bench(rig)
    assert [one async for one in run.run()] == []
    assert [str(cell) for cell in run.busy] == [
        "PUT 1000, 2 at once, by http",
        "GET 1000, 2 at once, by http",
    ]


async def test_run__server_refuses__ends_and_clears(rig: Rig) -> None:
    rig.server.hooks.append(
        lambda seen: error(403, "AccessDenied", "no") if "/1000/" in seen.raw_path else None
    )
    with pytest.raises(measure.S3Error, match="AccessDenied"):
        assert [one async for one in bench(rig).run()] == []
    assert any("list-type" in seen.raw_path for seen in rig.server.seen)


async def test_run__other_bytes_come_back__is_no_measurement(rig: Rig) -> None:
    get = rig.server.http_get
    rig.server.http_get = lambda seen, data: get(seen, data[::-1])  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="other bytes"):
        assert [one async for one in bench(rig).run()] == []


async def test_run__by_rdma_and_http__measures_each(rig: Rig) -> None:
    rig.server.connections.on = True
    run = bench(rig, tuple(Way))
    rows = [one async for one in run.run()]
    assert [one.cell.way for one in rows] == [*Way, *Way]
    assert [one.carrier for one in rows[:3]] == ["verbs", "verbs", ""]
    assert {one.transfers for one in rows} == {6}
    assert run.refused == run.busy == {}
