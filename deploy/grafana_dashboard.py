"""Print the Grafana dashboard: ``python deploy/grafana_dashboard.py > deploy/grafana/s3rdma.json``.

Each panel is one line here: its title, its unit, and what it asks of Prometheus. The metrics are
those of ``gateway.telemetry.catalogue``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_DATA = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8
_WORKERS = 'instance=~"$instance"'


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph.

    Attributes:
        unit: Grafana's name of it.
        queries: of what and how each line is called, in Grafana's ``{{label}}``.
    """

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]


def _rate(metric: str, by: str, selector: str = "") -> str:
    chosen = ", ".join(filter(None, (_WORKERS, selector)))
    return f"sum by ({by}) (rate(s3rdma_{metric}{{{chosen}}}[$__rate_interval]))"


def _sum(metric: str, by: str, selector: str = "") -> str:
    chosen = ", ".join(filter(None, (_WORKERS, selector)))
    return f"sum by ({by}) (s3rdma_{metric}{{{chosen}}})"


def _quantile(share: float, metric: str, by: str = "") -> str:
    labels = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({share}, {_rate(f'{metric}_bucket', labels)})"


ROWS = {
    "Requests": (
        Panel("Requests", "reqps", ((_rate("requests_total", "operation"), "{{operation}}"),)),
        Panel(
            "Refused and failed",
            "reqps",
            (
                (
                    _rate("requests_total", "operation, status", 'status=~"4..|5.."'),
                    "{{operation}} {{status}}",
                ),
            ),
        ),
        Panel(
            "Latency",
            "s",
            tuple(
                (_quantile(share, "request_duration_seconds"), f"p{share * 100:g}")
                for share in (0.5, 0.99)
            ),
        ),
        Panel(
            "Time to first byte, p99",
            "s",
            ((_quantile(0.99, "request_first_byte_seconds", "operation"), "{{operation}}"),),
        ),
        Panel(
            "Running requests and connections",
            "short",
            (
                (_sum("requests_running", "instance"), "running {{instance}}"),
                (_sum("http_connections", "instance"), "connections {{instance}}"),
            ),
        ),
        Panel("Refused by a limit", "reqps", ((_rate("limit_hits_total", "limit"), "{{limit}}"),)),
    ),
    "Bytes": (
        Panel(
            "Throughput by path",
            "Bps",
            ((_rate("moved_bytes_total", "path, direction"), "{{path}} {{direction}}"),),
        ),
        Panel(
            "Transfers by RDMA",
            "ops",
            ((_rate("transfers_total", "path, outcome"), "{{path}} {{outcome}}"),),
        ),
        Panel(
            "Share moved by RDMA",
            "percentunit",
            (
                (
                    f'sum(rate(s3rdma_moved_bytes_total{{{_WORKERS}, path=~"rdma|rc"}}'
                    "[$__rate_interval])) / "
                    f"sum(rate(s3rdma_moved_bytes_total{{{_WORKERS}}}[$__rate_interval]))",
                    "RDMA",
                ),
            ),
        ),
    ),
    "Fabric": (
        Panel(
            "Port is up",
            "short",
            ((_sum("fabric_up", "instance"), "{{instance}}"),),
        ),
        Panel("Sessions", "short", ((_sum("sessions", "state"), "{{state}}"),)),
        Panel("Connections", "short", ((_sum("rc_connections", "instance"), "{{instance}}"),)),
        Panel(
            "Queue pairs",
            "short",
            ((_sum("queue_pairs", "use, state"), "{{use}} {{state}}"),),
        ),
        Panel(
            "Staging of connections",
            "short",
            (
                (_sum("staging_slots", "state"), "slots {{state}}"),
                (_sum("staging_waiters", "instance"), "moves that wait {{instance}}"),
            ),
        ),
        Panel(
            "Completions with an error",
            "ops",
            ((_rate("completions_total", "status", 'status!="SUCCESS"'), "{{status}}"),),
        ),
        Panel(
            "Retransmissions and lost packets, soft fabric",
            "ops",
            (
                (_rate("retransmissions_total", "instance"), "back {{instance}}"),
                (_rate("ack_timeouts_total", "instance"), "timeouts {{instance}}"),
                (_rate("packets_dropped_total", "reason"), "dropped {{reason}}"),
                (_rate("datagrams_unsent_total", "instance"), "unsent {{instance}}"),
            ),
        ),
        Panel(
            "Polls and wake-ups",
            "ops",
            (
                (_rate("queue_polls_total", "instance"), "polls {{instance}}"),
                (_rate("progress_wakeups_total", "instance"), "wake-ups {{instance}}"),
                (_rate("core_events_total", "instance"), "events {{instance}}"),
            ),
        ),
        Panel(
            "Work requests",
            "ops",
            ((_rate("work_requests_total", "kind"), "{{kind}}"),),
        ),
    ),
    "Storage and process": (
        Panel(
            "Commits",
            "s",
            tuple(
                (_quantile(share, "commit_duration_seconds"), f"p{share * 100:g}")
                for share in (0.5, 0.99)
            ),
        ),
        Panel(
            "Changes in a commit, mean",
            "short",
            (
                (
                    f"sum(rate(s3rdma_commit_changes_sum{{{_WORKERS}}}[$__rate_interval])) / "
                    f"sum(rate(s3rdma_commit_changes_count{{{_WORKERS}}}[$__rate_interval]))",
                    "changes",
                ),
            ),
        ),
        Panel(
            "Queues",
            "short",
            (
                (_sum("pending_changes", "instance"), "changes {{instance}}"),
                (_sum("bodies_settling", "instance"), "bodies {{instance}}"),
                (_sum("digest_jobs", "instance"), "digests {{instance}}"),
                (_sum("read_aheads", "instance"), "read ahead {{instance}}"),
            ),
        ),
        Panel("Log", "ops", ((_rate("log_lines_total", "level"), "{{level}}"),)),
        Panel(
            "Memory",
            "bytes",
            ((f"process_resident_memory_bytes{{{_WORKERS}}}", "{{instance}}"),),
        ),
        Panel(
            "CPU",
            "percentunit",
            ((f"rate(process_cpu_seconds_total{{{_WORKERS}}}[$__rate_interval])", "{{instance}}"),),
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """The whole, as Grafana's JSON model has it."""
    return {
        "title": "s3rdma",
        "uid": "s3rdma",
        "tags": ["s3", "rdma"],
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus"}
    query = "label_values(s3rdma_build_info, instance)"
    yield {
        "name": "instance",
        "type": "query",
        "datasource": _DATA,
        "query": query,
        "definition": query,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 1, 0
    for title, panels in ROWS.items():
        place = {"x": 0, "y": top, "w": _COLUMNS * _WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place}
        number, top = number + 1, top + 1
        for at, panel in enumerate(panels):
            row, column = divmod(at, _COLUMNS)
            place = {"x": column * _WIDTH, "y": top + row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            yield _graph(panel, number, place)
            number += 1
        top += -(-len(panels) // _COLUMNS) * _HEIGHT


def _graph(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _DATA,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _DATA, "expr": query, "legendFormat": name}
            for at, (query, name) in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=2)
    sys.stdout.write("\n")
