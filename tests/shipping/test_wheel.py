"""The wheel, in an environment that has nothing else, and no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_process import serving

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 300.0
KEYS = {"S3RDMA_ACCESS_KEY": "AKWHEEL", "S3RDMA_SECRET_KEY": "secret-of-the-wheel"}

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a virtual environment that holds the wheel and what it needs."""
    place = tmp_path_factory.mktemp("wheel")
    dist = place / "dist"
    pip = [sys.executable, "-m", "pip", "--quiet"]
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", dist, REPOSITORY, cwd=place)
    (wheel,) = dist.glob("*.whl")
    run(sys.executable, "-m", "venv", place / "venv", cwd=place)
    programs = place / "venv" / "bin"
    # Whatever asks for a compiler fails: nothing may be built from source here.
    run(programs / "pip", "install", "-q", "--only-binary=:all:", wheel, cwd=place, CC="/bin/false")
    return programs


def test_wheel__in_an_empty_environment__carries_an_object_by_rdma(installed, tmp_path):
    argv = [str(installed / "s3rdma"), "serve", "--store", "store", "--admin-port", "0"]
    argv += ["--listen", "127.0.0.1:0", "--rdma-fabric", "soft"]
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3_000_000))
    with serving(argv, os.environ | KEYS, tmp_path / "log", tmp_path) as (address, _, _pid):
        client = {
            "AWS_ENDPOINT_URL": f"http://{address[0]}:{address[1]}",
            "AWS_ACCESS_KEY_ID": KEYS["S3RDMA_ACCESS_KEY"],
            "AWS_SECRET_ACCESS_KEY": KEYS["S3RDMA_SECRET_KEY"],
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        s3rdma = installed / "s3rdma"
        run(s3rdma, "mb", "s3://wheel", cwd=tmp_path, **client)
        run(s3rdma, "put", "--rdma", source, "s3://wheel/key", cwd=tmp_path, **client)
        run(s3rdma, "get", "--rdma", "s3://wheel/key", "back", cwd=tmp_path, **client)
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


def test_wheel__without_libibverbs__imports_and_doctor_names_the_package(installed, tmp_path):
    """The loader finds an empty file in its place, as on a host that lacks it."""
    hidden = tmp_path / "libibverbs.so.1"
    hidden.touch()
    done = subprocess.run(
        [installed / "s3rdma", "doctor"],
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "libibverbs1" in done.stdout + done.stderr
