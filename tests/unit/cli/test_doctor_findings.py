"""Each thing a host may lack, said in plain words with what to do about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.cli import host, main
from gateway.cli.diagnosis import Finding, Level, diagnose, verdict
from gateway.cli.host import HostFacts, read_host
from gateway.config import MIB, RdmaConfig
from gateway.dataplane.devices import DeviceInfo, Gid, GidType
from gateway.dataplane.port import FabricUnavailable, LinkLayer

PORT = DeviceInfo(
    device="mlx5_0",
    port=1,
    firmware="16.35",
    state="ACTIVE",
    mtu_bytes=4096,
    mtu_max_bytes=4096,
    gids=(Gid(3, bytes(10) + b"\xff\xff\x0a\x00\x00\x01", GidType.ROCE_V2),),
)
GOOD = HostFacts(
    kernel="6.1",
    drivers=("ib_core", "mlx5_ib"),
    verbs_nodes={"/dev/infiniband/uverbs0": True},
    devices=(PORT,),
    unavailable=None,
    rates={("mlx5_0", 1): "100 Gb/sec (4X EDR)"},
    memlock_bytes=None,
    huge_pages_free=4096,
    huge_page_bytes=2 * MIB,
    container="",
    soft_problem="",
)
MISSING = FabricUnavailable("libibverbs is not installed", "install libibverbs1")


def findings(facts: HostFacts, level: Level) -> list[Finding]:
    return [finding for finding in diagnose(facts, RdmaConfig()) if finding.level is level]


def test_host__with_everything__can() -> None:
    found = diagnose(GOOD, RdmaConfig())
    assert {finding.level for finding in found} == {Level.GOOD}
    assert verdict(GOOD, found) == (True, "Objects can move by RDMA: mlx5_0 port 1.")
    text = " ".join(finding.detail for finding in found)
    assert "100 Gb/sec" in text
    assert "GID 3: 10.0.0.1 (RoCE v2)" in text


def test_port__on_infiniband__shows_its_lid() -> None:
    port = replace(PORT, link_layer=LinkLayer.INFINIBAND, lid=17)
    found = diagnose(replace(GOOD, devices=(port,)), RdmaConfig())
    assert any("InfiniBand, LID 17" in finding.detail for finding in found)


@pytest.mark.parametrize(
    ("facts", "detail", "remedy"),
    [
        (replace(GOOD, verbs_nodes={}), "no /dev/infiniband", "modprobe ib_uverbs"),
        (replace(GOOD, verbs_nodes={}, container="docker"), "docker", "docker run --device"),
        (replace(GOOD, verbs_nodes={}, container="kubernetes"), "kubernetes", "device plugin"),
        (replace(GOOD, verbs_nodes={"/dev/infiniband/uverbs0": False}), "may not open", "group"),
        (replace(GOOD, devices=(), unavailable=MISSING), "not installed", "libibverbs1"),
        (replace(GOOD, devices=()), "shows no RDMA device", "ibverbs-providers"),
        (replace(GOOD, memlock_bytes=8 * MIB), "8 MiB may be pinned", "LimitMEMLOCK=infinity"),
        (
            replace(GOOD, devices=(replace(PORT, state="DOWN", problem="check the cable"),)),
            "DOWN",
            "check the cable",
        ),
        (
            replace(GOOD, devices=(DeviceInfo("mlx5_1", problem="it can't be opened"),)),
            "can't be opened",
            "dmesg",
        ),
    ],
)
def test_host__lacks_something__cannot_and_says_what_to_do(
    facts: HostFacts, detail: str, remedy: str
) -> None:
    facts = replace(facts, soft_problem="UDP port 4791 is taken")
    bad = findings(facts, Level.BAD)
    assert any(detail in finding.detail and remedy in finding.remedy for finding in bad)
    assert any("4791 is taken" in finding.detail for finding in findings(facts, Level.NOTE))
    can, line = verdict(facts, tuple(bad))
    assert not can
    assert "Plain HTTP works" in line


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        (replace(GOOD, drivers=()), "modprobe rdma_rxe"),
        (replace(GOOD, huge_pages_free=0), "vm.nr_hugepages="),
        (replace(GOOD, devices=(replace(PORT, mtu_bytes=1024),)), "mtu 4200"),
        (replace(GOOD, devices=(PORT, replace(PORT, device="b", problem="it is iWARP"))), "iWARP"),
    ],
)
def test_host__could_be_better__still_can(facts: HostFacts, remedy: str) -> None:
    notes = findings(facts, Level.NOTE)
    assert any(remedy in finding.remedy for finding in notes)
    assert verdict(facts, diagnose(facts, RdmaConfig()))[0]


def test_host__without_a_device__can_by_the_soft_fabric() -> None:
    facts = replace(GOOD, devices=(), unavailable=MISSING, verbs_nodes={}, memlock_bytes=8 * MIB)
    assert not findings(facts, Level.BAD)
    can, line = verdict(facts, diagnose(facts, RdmaConfig()))
    assert can
    assert "soft fabric, which needs no RDMA device" in line


def test_read_host__from_its_files__reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for directory in ("sys/module/rdma_rxe", "dev/infiniband", "proc/self", "run"):
        (tmp_path / directory).mkdir(parents=True)
    rate = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/rate"
    rate.parent.mkdir(parents=True)
    rate.write_text("100 Gb/sec (4X EDR)\n")
    (tmp_path / "dev/infiniband/uverbs0").touch()
    (tmp_path / "run/.containerenv").touch()
    (tmp_path / "proc/self/status").write_text("CapEff:\t0000000000000000\n")
    (tmp_path / "proc/meminfo").write_text("HugePages_Free:     7\nHugepagesize:    2048 kB\n")
    monkeypatch.setattr(host, "list_devices", lambda: (PORT,))
    monkeypatch.setattr(host.resource, "getrlimit", lambda _which: (64 * 1024, 64 * 1024))
    facts = read_host(tmp_path)
    assert facts.drivers == ("rdma_rxe",)
    assert facts.verbs_nodes == {str(tmp_path / "dev/infiniband/uverbs0"): True}
    assert facts.rates == {("mlx5_0", 1): "100 Gb/sec (4X EDR)"}
    assert facts.memlock_bytes == 64 * 1024
    assert (facts.huge_pages_free, facts.huge_page_bytes) == (7, 2 * MIB)
    assert facts.container == "podman"


def test_read_host__with_ipc_lock__has_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MISSING

    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("CapEff:\t0000000000004000\n")
    monkeypatch.setattr(host, "list_devices", missing)
    facts = read_host(tmp_path)
    assert facts.memlock_bytes is None
    assert facts.unavailable is MISSING
    assert (facts.devices, facts.verbs_nodes, facts.container) == ((), {}, "")


@pytest.mark.parametrize(
    ("facts", "code"), [(GOOD, 0), (replace(GOOD, devices=(), soft_problem="taken"), 1)]
)
def test_doctor__of_each_host__exits_accordingly(
    facts: HostFacts,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("S3RDMA_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(host, "read_host", lambda: facts)
    assert main(["doctor"]) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith("Objects can")
    assert main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["rdma"] is (code == 0)
