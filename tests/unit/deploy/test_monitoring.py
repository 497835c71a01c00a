"""Dashboard and alerts ask for metrics that there are, in rules that Prometheus takes."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from pathlib import Path

import pytest
from promtool import promtool

from gateway.telemetry.catalogue import FAMILIES
from gateway.telemetry.measures import Kind

DEPLOY = Path(__file__).parents[3] / "deploy"
ALERTS = DEPLOY / "prometheus/alerts.yaml"
DASHBOARD = DEPLOY / "grafana/s3rdma.json"
# The client library's own (ProcessCollector), and Prometheus' of each scrape.
OTHERS = {"process_resident_memory_bytes", "process_cpu_seconds_total", "up"}


def series() -> set[str]:
    """Every series that the gateway's families make."""
    found = set(OTHERS)
    for family in FAMILIES:
        suffixes = ("_bucket", "_sum", "_count") if family.kind is Kind.HISTOGRAM else ("",)
        found |= {family.name + suffix for suffix in suffixes}
    return found


def queries() -> dict[str, str]:
    """Every query of the dashboard, by its panel's title."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in panels
        for target in panel.get("targets", ())
    }


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=["alerts", "dashboard"])
def test_metrics__named_in_deploy__all_exist(file: Path) -> None:
    named = set(re.findall(r"\b(?:s3rdma|process)_[a-z_]+(?=[{\[) ]| ==| >)", file.read_text()))
    assert len(named) > 8
    assert named <= series()


def test_dashboard__compared_with_its_source__is_what_it_prints() -> None:
    made = runpy.run_path(str(DEPLOY / "grafana_dashboard.py"))["dashboard"]()
    assert json.loads(DASHBOARD.read_text()) == made


def test_dashboard__panels__do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_dashboard__every_query__is_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries().values())
    ]
    file = tmp_path / "queries.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(file))


def test_alerts__given_to_prometheus__are_taken() -> None:
    assert "SUCCESS" in promtool("check", "config", str(DEPLOY / "prometheus/scrape.yaml"))


def test_alerts__given_series__fire_when_they_should(tmp_path: Path) -> None:
    shutil.copy(ALERTS, tmp_path)
    shutil.copy(Path(__file__).with_name("alerts_test.yaml"), tmp_path)
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yaml", directory=tmp_path)
