"""Each thing a host may lack, said in plain words with what to do about it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.cli import host, main
from gateway.cli.diagnosis import Choice, Finding, Level, choose, diagnose, verdict
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
    netdev_backlog=1000,
    soft_problem=None,
)
MISSING = FabricUnavailable("libibverbs is not installed", "install libibverbs1")
TAKEN = FabricUnavailable("UDP port 4791 is taken", "modprobe -r rdma_rxe")
AUTO = RdmaConfig()


def findings(facts: HostFacts, level: Level) -> list[Finding]:
    return [finding for finding in diagnose(facts, AUTO) if finding.level is level]


def judged(facts: HostFacts, config: RdmaConfig = AUTO) -> tuple[bool, str]:
    return verdict(config, choose(facts, config), diagnose(facts, config))


def test_host__with_everything__can() -> None:
    found = diagnose(GOOD, AUTO)
    assert {finding.level for finding in found} == {Level.GOOD}
    can, line = judged(GOOD)
    assert can
    assert "auto takes an RDMA device" in line
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
        (replace(GOOD, devices=()), "4791 is taken", "modprobe -r rdma_rxe"),
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
    facts = replace(facts, soft_problem=TAKEN)
    if not facts.memlock_bytes and facts.devices == (PORT,):
        facts = replace(facts, devices=())  # as it is where the library can't open any
    bad = findings(facts, Level.BAD)
    assert any(detail in finding.detail and remedy in finding.remedy for finding in bad)
    can, line = judged(facts)
    assert not can
    assert "UDP port 4791 is taken" in line
    assert "Plain HTTP works" in line


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        (replace(GOOD, drivers=()), "modprobe rdma_rxe"),
        (replace(GOOD, huge_pages_free=0), "vm.nr_hugepages="),
        (replace(GOOD, drivers=("ib_core", "rdma_rxe")), "net.core.netdev_max_backlog=20000"),
        (replace(GOOD, devices=(replace(PORT, mtu_bytes=1024),)), "mtu 4200"),
        (replace(GOOD, devices=(PORT, replace(PORT, device="b", problem="it is iWARP"))), "iWARP"),
    ],
)
def test_host__could_be_better__still_can(facts: HostFacts, remedy: str) -> None:
    notes = findings(facts, Level.NOTE)
    assert any(remedy in finding.remedy for finding in notes)
    assert judged(facts)[0]


@pytest.mark.parametrize(
    ("facts", "because"),
    [
        (replace(GOOD, devices=(), unavailable=MISSING, verbs_nodes={}), "is not installed"),
        (replace(GOOD, devices=()), "there is no RDMA device"),
        (replace(GOOD, devices=(replace(PORT, problem="it is iWARP"),)), "port 1: it is iWARP"),
        (replace(GOOD, memlock_bytes=8 * MIB), "8 MiB may be pinned"),
    ],
)
def test_host__no_device_will_do__can_by_the_soft_fabric_and_says_why(
    facts: HostFacts, because: str
) -> None:
    assert not findings(facts, Level.BAD)
    can, line = judged(facts)
    assert can
    assert "auto takes the soft fabric, because" in line
    assert because in line
    assert not any("huge" in finding.subject for finding in diagnose(facts, AUTO))


@pytest.mark.parametrize(
    ("config", "facts", "fabric", "because"),
    [
        (AUTO, GOOD, "verbs", "a device that can be used"),
        (RdmaConfig(fabric="verbs"), GOOD, "verbs", "a device that can be used"),
        (RdmaConfig(fabric="soft"), GOOD, "soft", "rdma.fabric asks"),
        (RdmaConfig(fabric="off"), GOOD, "", "rdma.fabric is off"),
        (RdmaConfig(fabric="verbs"), replace(GOOD, devices=()), "", "there is no RDMA device"),
        (RdmaConfig(fabric="soft"), replace(GOOD, soft_problem=TAKEN), "", "4791 is taken"),
        (RdmaConfig(device="mlx5_7"), GOOD, "", "no RDMA device 'mlx5_7'"),
        (
            AUTO,
            replace(GOOD, devices=(), soft_problem=TAKEN),
            "",
            "there is no RDMA device, and UDP port 4791 is taken",
        ),
    ],
)
def test_choose__each_setting__is_what_serve_will_open(
    config: RdmaConfig, facts: HostFacts, fabric: str, because: str
) -> None:
    choice = choose(facts, config)
    assert choice.fabric == fabric
    assert because in choice.because


def test_soft_fabric__of_this_host_only__says_how_others_reach_it() -> None:
    alone, reachable = (
        next(
            finding
            for finding in diagnose(GOOD, RdmaConfig(soft_address=address))
            if finding.subject == "soft fabric"
        )
        for address in ("", "10.0.0.5")
    )
    assert "rdma.soft_address" in alone.remedy
    assert (reachable.detail.endswith("of 10.0.0.5"), reachable.remedy) == (True, "")


def test_verdict__gateway_there_refuses__is_its_reason() -> None:
    refusal = Finding(Level.BAD, "gateway", "it answers 501")
    can, line = verdict(AUTO, Choice("soft", "no device"), (refusal,))
    assert not can
    assert "it answers 501" in line


def test_read_host__from_its_files__reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for directory in (
        "sys/module/rdma_rxe",
        "dev/infiniband",
        "proc/self",
        "proc/sys/net/core",
        "run",
    ):
        (tmp_path / directory).mkdir(parents=True)
    rate = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/rate"
    rate.parent.mkdir(parents=True)
    rate.write_text("100 Gb/sec (4X EDR)\n")
    (tmp_path / "dev/infiniband/uverbs0").touch()
    (tmp_path / "run/.containerenv").touch()
    (tmp_path / "proc/self/status").write_text("CapEff:\t0000000000000000\n")
    (tmp_path / "proc/meminfo").write_text("HugePages_Free:     7\nHugepagesize:    2048 kB\n")
    (tmp_path / "proc/sys/net/core/netdev_max_backlog").write_text("1000\n")
    monkeypatch.setattr(host, "list_devices", lambda: (PORT,))
    monkeypatch.setattr(host.resource, "getrlimit", lambda _which: (64 * 1024, 64 * 1024))
    facts = read_host(AUTO, tmp_path)
    assert facts.drivers == ("rdma_rxe",)
    assert facts.verbs_nodes == {str(tmp_path / "dev/infiniband/uverbs0"): True}
    assert facts.rates == {("mlx5_0", 1): "100 Gb/sec (4X EDR)"}
    assert facts.memlock_bytes == 64 * 1024
    assert (facts.huge_pages_free, facts.huge_page_bytes) == (7, 2 * MIB)
    assert (facts.container, facts.netdev_backlog) == ("podman", 1000)


def test_read_host__with_ipc_lock__has_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MISSING

    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("CapEff:\t0000000000004000\n")
    monkeypatch.setattr(host, "list_devices", missing)
    facts = read_host(AUTO, tmp_path)
    assert facts.memlock_bytes is None
    assert facts.unavailable is MISSING
    assert (facts.devices, facts.verbs_nodes, facts.container) == ((), {}, "")


@pytest.mark.parametrize(
    ("facts", "code", "fabric"),
    [
        (GOOD, 0, "verbs"),
        (replace(GOOD, devices=()), 0, "soft"),
        (replace(GOOD, devices=(), soft_problem=TAKEN), 1, ""),
    ],
)
def test_doctor__of_each_host__exits_accordingly(
    facts: HostFacts,
    code: int,
    fabric: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forget_environment(monkeypatch)
    monkeypatch.setattr(host, "read_host", lambda _config: facts)
    assert main(["doctor"]) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith("Objects can")
    assert main(["doctor", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert (told["rdma"], told["fabric"]) == (code == 0, fabric)
    assert told["because"] in told["verdict"]


def test_doctor__settings_of_the_gateway__are_the_ones_it_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_environment(monkeypatch)
    monkeypatch.setattr(host, "read_host", lambda _config: GOOD)
    file = tmp_path / "s3rdma.toml"
    file.write_text('[rdma]\nfabric = "off"\n')
    assert main(["doctor", "--json", "--config", str(file)]) == 1
    assert json.loads(capsys.readouterr().out)["because"] == "rdma.fabric is off"
    monkeypatch.setenv("S3RDMA_RDMA_FABRIC", "soft")
    assert main(["doctor", "--json", "--config", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["fabric"] == "soft"
    monkeypatch.setenv("S3RDMA_RDMA_FABRIC", "softly")
    assert main(["doctor"]) == 2
    assert "softly" in capsys.readouterr().err


def forget_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the developer's own that would point at a gateway or set one up."""
    for name in tuple(os.environ):
        if name.startswith(("S3RDMA_", "AWS_ENDPOINT_URL")):
            monkeypatch.delenv(name)
