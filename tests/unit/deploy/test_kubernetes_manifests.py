"""The manifests against Kubernetes' own schemas, strict: an unknown field is a mistake."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from gateway.config.load import load, settings
from gateway.config.setting import MIB

MANIFESTS = Path(__file__).parents[3] / "deploy" / "kubernetes"
OLDEST = "1.28"


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(MANIFESTS.glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            yield file.name, document


OBJECTS = {
    document["kind"] + "/" + document["metadata"]["name"]: document
    for name, document in documents()
    if name != "kustomization.yaml"
}
CONTAINER = OBJECTS["StatefulSet/s3rdma"]["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("document", OBJECTS.values(), ids=OBJECTS)
def test_manifest__kubernetes_schema__fits(document, version):
    kubernetes_validate.validate(document, version, strict=True)


def test_kustomization__its_resources__are_all_files_there_are():
    kustomization = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    files = {file.name for file in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files


def test_services__their_selectors_and_ports__meet_the_pod():
    pod = OBJECTS["StatefulSet/s3rdma"]["spec"]["template"]
    ports = {port["name"] for port in CONTAINER["ports"]}
    for service in (OBJECTS["Service/s3rdma"], OBJECTS["Service/s3rdma-metrics"]):
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_settings__in_the_map_and_in_the_environment__can_be_used(tmp_path):
    file = tmp_path / "s3rdma.toml"
    file.write_text(OBJECTS["ConfigMap/s3rdma"]["data"]["s3rdma.toml"])
    tomllib.loads(file.read_text())
    environment = {one["name"]: one.get("value", "10.0.0.1") for one in CONTAINER["env"]}
    config = load(file, environment)
    known = {setting.variable for setting in settings()} | {"S3RDMA_LISTEN", "S3RDMA_STORE"}
    assert set(environment) <= known
    pages = CONTAINER["resources"]["limits"]["hugepages-2Mi"]
    assert int(pages.removesuffix("Mi")) * MIB >= config.rdma.staging_bytes
