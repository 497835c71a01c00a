"""The deployment files name real settings, at their real defaults."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path

from gateway.config import Config
from gateway.config.load import load, settings

DEPLOY = Path(__file__).parents[3] / "deploy"
EXAMPLE = DEPLOY / "s3rdma.toml"


def test_example__loaded__is_the_defaults() -> None:
    assert load(EXAMPLE) == Config()


def test_example__compared_with_the_settings__names_each_that_has_a_section() -> None:
    table = tomllib.loads(EXAMPLE.read_text())
    for setting in settings():
        if setting.section:
            found: object = table
            for name in setting.path.split("."):
                assert isinstance(found, dict)
                assert name in found, setting.path
                found = found[name]


def test_example__rendered_again__is_the_file() -> None:
    rendered = runpy.run_path(str(DEPLOY / "example_settings.py"))["example"]()
    assert rendered == EXAMPLE.read_text(), "run: python deploy/example_settings.py"
